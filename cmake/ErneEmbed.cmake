# erne_embed(TARGET NAME BASE folder FILES a b/c ...): compiles files into TARGET, as they are on disk.
#
#   erne_embed(erne_api page BASE ${PROJECT_SOURCE_DIR}/web FILES index.html app.js)
#
# The sources of TARGET then include "embedded/page.h", which declares
#
#   namespace erne { const EmbeddedFiles& EmbeddedPage(); }   // PascalCase of NAME
#
# a map from each name of FILES (as written: relative to BASE) to its bytes, ready for MakeEmbeddedFileSet. The bytes lie
# in read-only memory, 64-byte aligned, for the life of the program. The assembler's .incbin copies them, so that a
# 30 MB model costs no compile time; a changed file is rebuilt by itself.
include_guard(GLOBAL)

function(erne_embed target name)
  cmake_parse_arguments(A "" "BASE" "FILES" ${ARGN})
  if(NOT A_BASE OR NOT A_FILES)
    message(FATAL_ERROR "erne_embed(${target} ${name}): BASE and FILES are needed")
  endif()
  string(REPLACE "_" ";" words "${name}")
  set(function "Embedded")
  foreach(word ${words})
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND function "${first}${rest}")
  endforeach()

  set(assembly "")
  set(declarations "")
  set(entries "")
  set(paths "")
  set(index 0)
  foreach(file ${A_FILES})
    set(path "${A_BASE}/${file}")
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "erne_embed(${target} ${name}): ${path} does not exist")
    endif()
    list(APPEND paths "${path}")
    set(symbol "erne_embedded_${name}_${index}")
    # Escaped twice: for the assembler's string, and for the C++ string that holds it.
    string(REPLACE "\\" "\\\\\\\\" escaped "${path}")
    string(REPLACE "\"" "\\\\\\\"" escaped "${escaped}")
    string(APPEND assembly
      "    \".balign 64\\n\"\n    \"${symbol}_begin:\\n\"\n"
      "    \".incbin \\\"${escaped}\\\"\\n\"\n    \"${symbol}_end:\\n\"\n    \".byte 0\\n\"\n")
    string(APPEND declarations
      "extern const std::byte ${symbol}_begin[] __attribute__((visibility(\"hidden\")));\n"
      "extern const std::byte ${symbol}_end[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND entries
      "      {\"${file}\", std::span<const std::byte>(${symbol}_begin, ${symbol}_end)},\n")
    math(EXPR index "${index} + 1")
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_embedded")
  file(CONFIGURE OUTPUT "${folder}/embedded/${name}.h" @ONLY CONTENT
"// Written by cmake/ErneEmbed.cmake.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace erne {

using EmbeddedFiles = std::map<std::string, std::span<const std::byte>>;

const EmbeddedFiles& @function@();

}  // namespace erne
")
  file(CONFIGURE OUTPUT "${folder}/${name}.cc" @ONLY CONTENT
"// Written by cmake/ErneEmbed.cmake.
#include \"embedded/@name@.h\"

asm(\".section .rodata\\n\"
@assembly@    \".previous\\n\");

extern \"C\" {
@declarations@}

namespace erne {

const EmbeddedFiles& @function@() {
  static const EmbeddedFiles files = {
@entries@  };
  return files;
}

}  // namespace erne
")
  set_source_files_properties("${folder}/${name}.cc" PROPERTIES OBJECT_DEPENDS "${paths}")
  target_sources(${target} PRIVATE "${folder}/${name}.cc")
  target_include_directories(${target} PUBLIC "${folder}")
endfunction()
