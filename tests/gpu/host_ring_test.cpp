// A ring of pinned memory that kernels read and write themselves, on a real GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/cuda/exchange/host_ring.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::runtime::cuda {
namespace {

constexpr std::size_t kSlots = 3;

class GpuHostRing : public test::GpuTest {
 protected:
  // The words of a run's slot.
  static std::vector<int> words_of(std::size_t run, std::int64_t bytes) {
    std::vector<int> words(static_cast<std::size_t>(bytes) / 4);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<int>(run * 1'000'003 + i);
    return words;
  }
};

// One block and many, whole ones and not.
TEST_F(GpuHostRing, EachLaunchOfAGraphTakesTheNextSlot) {
  for (const std::int64_t bytes : {4, 1024, 4 * 12'345, 4 * 300'001}) {
    SCOPED_TRACE(bytes);
    const HostRing in(HostRing::Direction::to_device, bytes, kSlots),
        out(HostRing::Direction::to_host, bytes, kSlots + 1);
    const DeviceBuffer device(bytes);
    const Graph graph = Graph::capture(*stream, [&] {
      in.copy(device.data(), *stream);
      out.copy(device.data(), *stream);
    });
    for (std::size_t run = 0; run < 3 * kSlots; ++run) {
      const std::vector<int> given = words_of(run, bytes);
      std::memcpy(in.slot(run), given.data(), static_cast<std::size_t>(bytes));
      std::memset(out.slot(run), 0xff, static_cast<std::size_t>(bytes));
      graph.launch(*stream);
      stream->synchronize();
      EXPECT_EQ(std::memcmp(out.slot(run), given.data(), static_cast<std::size_t>(bytes)), 0) << run;
    }
  }
}

// As the training loop does it: the next slots are filled while kernels run.
TEST_F(GpuHostRing, SlotsAreFilledAheadAndRunsOutsideOfGraphsCount) {
  const std::int64_t bytes = 4 * 5000;
  const HostRing in(HostRing::Direction::to_device, bytes, kSlots);
  const HostRing out(HostRing::Direction::to_host, bytes, kSlots);
  const DeviceBuffer device(bytes);
  for (std::size_t run = 0; run < kSlots; ++run)
    std::memcpy(in.slot(run), words_of(run, bytes).data(), bytes);
  for (std::size_t run = 0; run < kSlots; ++run) {
    in.copy(device.data(), *stream);
    out.copy(device.data(), *stream);
  }
  stream->synchronize();
  for (std::size_t run = 0; run < kSlots; ++run)
    EXPECT_EQ(std::memcmp(out.slot(run), words_of(run, bytes).data(), bytes), 0) << run;
}

}  // namespace
}  // namespace hydrac::runtime::cuda
