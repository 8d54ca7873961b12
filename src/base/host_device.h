// ERNE_HD marks functions that kernels call too; it is empty where the CUDA compiler does not read.
#pragma once

#ifdef __CUDACC__
#define ERNE_HD __host__ __device__
#else
#define ERNE_HD
#endif
