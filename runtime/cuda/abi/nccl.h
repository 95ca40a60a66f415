// The part of NCCL's C ABI (libnccl.so.2, 2.18 and newer) that this folder uses; see driver.h.
#pragma once
#include <cstddef>

#include "runtime/cuda/abi/driver.h"

// Declared under NCCL's own name, so that NCCL's handle and ours are the same type.
struct ncclComm;

namespace hydrac::runtime::cuda::abi {

using ncclResult_t = int;
using ncclComm_t = ::ncclComm*;
using ncclDataType_t = int;
using ncclRedOp_t = int;

constexpr int kNcclUniqueIdBytes = 128;
struct ncclUniqueId {
  char internal[kNcclUniqueIdBytes];
};

constexpr ncclResult_t kNcclSuccess = 0;
constexpr ncclDataType_t kNcclFloat16 = 6, kNcclFloat32 = 7, kNcclBfloat16 = 9;
constexpr ncclRedOp_t kNcclSum = 0, kNcclMax = 2;

// clang-format off
#define HYDRAC_NCCL_FUNCTIONS(X)                                                                                 \
  X(ncclResult_t, ncclGetVersion, (int* version))                                                                \
  X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId* id))                                                           \
  X(ncclResult_t, ncclCommInitRank, (ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank))            \
  X(ncclResult_t, ncclCommSplit, (ncclComm_t all, int color, int key, ncclComm_t* part, void* config))            \
  X(ncclResult_t, ncclCommAbort, (ncclComm_t communicator))                                                      \
  X(ncclResult_t, ncclAllReduce, (const void* from, void* to, std::size_t count, ncclDataType_t type,            \
                                  ncclRedOp_t op, ncclComm_t communicator, CUstream stream))                     \
  X(ncclResult_t, ncclReduceScatter, (const void* from, void* to, std::size_t count_of_part, ncclDataType_t type, \
                                      ncclRedOp_t op, ncclComm_t communicator, CUstream stream))                  \
  X(ncclResult_t, ncclAllGather, (const void* from, void* to, std::size_t count_of_part, ncclDataType_t type,     \
                                  ncclComm_t communicator, CUstream stream))                                      \
  X(ncclResult_t, ncclSend, (const void* from, std::size_t count, ncclDataType_t type, int rank,                  \
                             ncclComm_t communicator, CUstream stream))                                           \
  X(ncclResult_t, ncclRecv, (void* to, std::size_t count, ncclDataType_t type, int rank,                          \
                             ncclComm_t communicator, CUstream stream))                                           \
  X(ncclResult_t, ncclGroupStart, ())                                                                            \
  X(ncclResult_t, ncclGroupEnd, ())                                                                              \
  X(const char*, ncclGetErrorString, (ncclResult_t result))                                                      \
  X(const char*, ncclGetLastError, (ncclComm_t communicator))
// clang-format on

struct NcclApi {
#define HYDRAC_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HYDRAC_NCCL_FUNCTIONS(HYDRAC_MEMBER)
#undef HYDRAC_MEMBER
};

}  // namespace hydrac::runtime::cuda::abi
