// Attention on CUDA: three kernels (forward, query_gradients, key_gradients), each a device function template over a
// config. geometry.h chooses the tile and the launch; docs of the method stand at each kernel.
#pragma once
#include "cuda/attention/forward.cuh"
#include "cuda/attention/key_gradients.cuh"
#include "cuda/attention/query_gradients.cuh"
