#include "emit/folder/build_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "emit/functions.h"
#include "emit/source_file.h"
#include "targets/target.h"

namespace hydrac::emit {

namespace {

// How kernels are compiled: as hydrac itself compiles them, so that both compute the same bits.
constexpr const char* kCpuFlags =
    R"(# No contraction: a * b + c rounds twice wherever it stands, so that fusing kernels changes no result.
set(kernel_options -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math)
# A compiler cache would take one machine's -march=native for another's.
set_target_properties(program PROPERTIES CXX_COMPILER_LAUNCHER "")
)";

// @TEXT@: whether the data is text. @VERSION@: of hydrac.
constexpr const char* kRuntime = R"(
option(SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer in host code, lines of kernels for compute-sanitizer" OFF)
if(SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined> $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
  add_link_options(-fsanitize=address,undefined)
endif()

# The runtime: carried along in runtime/ (hydrac emit --vendor-runtime), or installed. Of others it needs the headers
# of fmt (text on the screen, messages) and nlohmann-json (metrics, checkpoints); OpenMP; and, only where the data is
# text, PCRE2 and utf8proc (splitting text as a tokenizer.json says), zlib and zstd (.gz, .zst). Token shards need none of the last four.
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/CMakeLists.txt)
  set(HYDRAC_RUNTIME_TEXT @TEXT@)
  add_subdirectory(runtime EXCLUDE_FROM_ALL)
else()
  find_package(hydrac-runtime @VERSION@ REQUIRED)
endif()

# The program, and the two that use it: train, and libtrain.so with the functions of train.h.
)";

// @DATA@: what reads it. @RANKS@: what starts a program of several ranks.
constexpr const char* kUsers = R"(
add_executable(train train.cpp)
target_link_libraries(train PRIVATE program @DATA@)

add_library(library SHARED library.cpp)
set_target_properties(library PROPERTIES OUTPUT_NAME train)
target_link_libraries(library PRIVATE program $<LINK_LIBRARY:WHOLE_ARCHIVE,hydrac::c_interface>)

include(CTest)
if(BUILD_TESTING)
  add_executable(smoke_test $<TARGET_OBJECTS:hydrac::smoke_test>)
  set_target_properties(smoke_test PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(smoke_test PRIVATE library)
  add_test(NAME smoke COMMAND @RANKS@ ${CMAKE_CURRENT_SOURCE_DIR}/test/expected.txt)
endif()

include(GNUInstallDirs)
install(TARGETS train library)
install(FILES train.h TYPE INCLUDE)
)";

constexpr const char* kStartRanks = R"(#
# sh ranks.sh N COMMAND...: runs the command as N ranks on this machine, as torchrun would.
count=$1
shift
rank=1
while [ "$rank" -lt "$count" ]; do
  RANK=$rank WORLD_SIZE=$count MASTER_PORT=$$ "$@" &
  rank=$((rank + 1))
done
RANK=0 WORLD_SIZE=$count MASTER_PORT=$$ "$@"
)";

std::string with(std::string text, const std::string& placeholder, const std::string& value) {
  return text.replace(text.find(placeholder), placeholder.size(), value);
}

std::string data_target(DataKind data) {
  switch (data) {
    case DataKind::shards:
      return "hydrac::data";
    case DataKind::text:
      return "hydrac::text";
    case DataKind::series:
      return "hydrac::series";
  }
  throw std::logic_error("no such kind of data");
}

// Targets that main() also calls.
std::string encoder_target(const spec::Spec& spec) {
  return spec::encoder_of_replies(spec) ? " hydrac::encoder" : "";
}

}  // namespace

std::string cmake_lists(const driver::Compiled& compiled, DataKind data, const Origin& origin,
                        const std::vector<std::string>& sources,
                        const std::vector<std::string>& uncontracted) {
  const targets::Target& target = *targets::find(compiled.spec.target);
  const bool cpu = target.is_cpu();
  const std::string project = namespace_of(compiled.spec);
  std::string text = provenance(origin, "# ") + "cmake_minimum_required(VERSION 3.25)\n";
  if (!cpu) {
    // Tensor cores' newest instructions are in no other GPU's code.
    text += fmt::format(
        "if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{{CUDAARCHS}})\n"
        "  set(CMAKE_CUDA_ARCHITECTURES {}{})  # of the {}, whose instructions and sizes the kernels are "
        "made for\n"
        "endif()\n",
        target.capability, target.capability >= 90 ? "a-real" : "", compiled.spec.target);
  }
  text += fmt::format("project({} LANGUAGES CXX{})\n\n", project, cpu ? "" : " CUDA");
  text += "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n";
  text += "set(CMAKE_CXX_STANDARD 20)\nset(CMAKE_CXX_STANDARD_REQUIRED ON)\n";
  if (!cpu) {
    // CMake before 3.26 does not know that nvcc has C++20.
    text +=
        "set(CMAKE_CUDA_STANDARD 20)\nset(CMAKE_CUDA_EXTENSIONS OFF)\nif(NOT "
        "CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it\n"
        "  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)\nendif()\n";
  }
  text += with(with(kRuntime, "@TEXT@", data == DataKind::text ? "ON" : "OFF"), "@VERSION@", HYDRAC_VERSION);
  text += "add_library(program OBJECT";
  std::string kernels;
  for (const std::string& source : sources) {
    if (source == "train.cpp" || source == "library.cpp") continue;
    text += "\n  " + source;
    if (std::ranges::find(uncontracted, source) != uncontracted.end()) kernels += "\n  " + source;
  }
  text += ")\nset_target_properties(program PROPERTIES POSITION_INDEPENDENT_CODE ON)\n";
  text += "target_include_directories(program PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n";
  if (cpu) {
    text += std::string("\n") + kCpuFlags;
    text += fmt::format(
        "set_source_files_properties({}\n  PROPERTIES COMPILE_OPTIONS \"${{kernel_options}}\")\n", kernels);
    text += "\n# OpenMP runs kernels on all cores; the BLAS library is opened at run time.\n";
    text += "find_package(OpenMP REQUIRED)\n";
    text += "target_link_libraries(program PUBLIC hydrac::app hydrac::cpu OpenMP::OpenMP_CXX)\n";
  } else {
    text +=
        "\n# No contraction: a * b + c rounds twice wherever it stands, so that fusing kernels changes no "
        "result.\n";
    text +=
        fmt::format("set_source_files_properties({}\n  PROPERTIES COMPILE_OPTIONS --fmad=false)\n", kernels);
    text +=
        "\n# The CUDA runtime launches kernels; NVTX, which is headers only, names ranges for profilers. The "
        "driver, "
        "cuBLASLt\n# and cuDNN are opened at run time.\nfind_package(CUDAToolkit REQUIRED)\n";
    text +=
        fmt::format("target_link_libraries(program PUBLIC hydrac::app hydrac::cuda{} CUDA::cudart_static)\n",
                    cudnn_attentions(compiled).empty() ? "" : " hydrac::cudnn");
  }
  const int64_t ranks = spec::rank_count(compiled.spec);
  const std::string smoke_test =
      ranks > 1 ? fmt::format("sh ${{CMAKE_CURRENT_SOURCE_DIR}}/{} {} $<TARGET_FILE:smoke_test>",
                              kRanksScript, ranks)
                : "smoke_test";
  return text + with(with(kUsers, "@DATA@", data_target(data) + encoder_target(compiled.spec)), "@RANKS@",
                     smoke_test);
}

std::string ranks_script(const Origin& origin) {
  return provenance(origin, "# ") + kStartRanks;
}

}  // namespace hydrac::emit
