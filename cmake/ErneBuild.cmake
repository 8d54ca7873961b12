# Settings shared by every target, and the three functions that declare them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_package(Threads REQUIRED)

add_library(erne_settings INTERFACE)
target_include_directories(erne_settings INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Contraction is off so that a*b+c rounds the same in every function and on every compiler: fused
# multiply-adds are written where they are wanted (kernels), never left to the optimiser.
set(erne_options -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type
  -ffp-contract=off -fno-math-errno)
target_compile_options(erne_settings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${erne_options}>")
target_compile_definitions(erne_settings INTERFACE ERNE_VERSION="${PROJECT_VERSION}")
target_link_libraries(erne_settings INTERFACE Threads::Threads)
if(ERNE_SANITIZE)
  target_compile_options(erne_settings INTERFACE -fsanitize=${ERNE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(erne_settings INTERFACE -fsanitize=${ERNE_SANITIZE})
endif()
if(ERNE_FUZZ)
  target_compile_options(erne_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

# CUDA kernels: the same rule about fused multiply-adds.
if(ERNE_CUDA)
  # What the kernels run on: Ampere, Ada, Hopper, Blackwell; the last one as PTX, too, for what comes after it.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90a-real 120)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc's flag
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(erne_settings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xcompiler=-Wall>")
endif()

# erne_library(NAME SOURCES a.cc ... [DEPS erne_base ...])
function(erne_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC erne_settings ${A_DEPS})
endfunction()

# erne_test(NAME SOURCES a_test.cc ... [DEPS ...] [LABELS slow]): one GoogleTest program, one CTest entry.
# ERNE_TEST_DATA (environment) is the committed test data; ERNE_SHARED the optional outside data.
function(erne_test name)
  if(NOT ERNE_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  erne_add_test(NAME ${name} COMMAND ${name} LABELS ${A_LABELS})
endfunction()

# erne_add_test(NAME n COMMAND c ... [LABELS l ...]): a CTest entry with the environment all tests share.
function(erne_add_test)
  cmake_parse_arguments(A "" "NAME" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${A_NAME} COMMAND ${A_COMMAND})
  set_tests_properties(${A_NAME} PROPERTIES TIMEOUT 600 LABELS "${A_LABELS}"
    ENVIRONMENT "ERNE_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data;ERNE_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()

# erne_fuzzer(NAME SOURCES x_fuzz.cc ... [DEPS ...]): a libFuzzer program; seeds live in tests/fuzz/NAME.
function(erne_fuzzer name)
  if(NOT ERNE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# erne_check_headers(): one tiny source per header of src/, so that a header that does not stand by itself fails the build.
function(erne_check_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/*.h)
  if(NOT ERNE_CUDA)  # these need the toolkit's own headers
    list(FILTER headers EXCLUDE REGEX
      "^executor/cuda/(attention|device|device_model|gemm|gemm_kernels|pack_kernels|row_kernels|sampling|token_sampler|workspace)\\.h$")
  endif()
  set(sources)
  foreach(header ${headers})
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${PROJECT_BINARY_DIR}/headers/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(erne_headers OBJECT ${sources})
  target_link_libraries(erne_headers PRIVATE erne_settings)
  if(ERNE_CUDA)
    target_link_libraries(erne_headers PRIVATE CUDA::cudart_static)
  endif()
endfunction()
