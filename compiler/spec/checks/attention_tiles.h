// optimizations.attention_tiles as the attention kernels' geometry knows them.
#pragma once
#include <string>
#include <vector>

#include "cuda/attention/geometry.h"
#include "spec/spec.h"

namespace hydrac::spec {

// The tiles that the spec asks for, auto as 0 x 0.
cuda::AttentionTiles attention_tiles(const SpecKeys& spec);
bool asks_for_tiles(const SpecKeys& spec);

// True if the program has the kernel by default: there are backward passes without the pair.
bool has_kernel(const SpecKeys& spec, cuda::AttentionKernel kernel);

// Tiles, "64x128", that the GPU can give to one of the kernels forward, query_gradients and key_gradients of
// this model; the target is a GPU. Without the tile that the
// program has by itself.
std::vector<std::string> possible_tiles(const SpecKeys& spec, cuda::AttentionKernel kernel);

// Why a kernel cannot have a tile: "64x128 takes more registers than a thread has"; "" where it can.
std::string tile_obstacle(const SpecKeys& spec, cuda::AttentionKernel kernel, TileShape shape);

}  // namespace hydrac::spec
