#include "runtime/parallel/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "runtime/error.h"

namespace hydrac::runtime {
namespace {

using List = std::vector<int>;

// Of the calling thread.
List allowed() {
  cpu_set_t set;
  List cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

TEST(Cores, AreSplitInOrderAndEqually) {
  const List cores = {8, 9, 0, 1, 2};
  EXPECT_EQ(cores_of_rank(cores, 0, 2), (List{8, 9}));
  EXPECT_EQ(cores_of_rank(cores, 1, 2), (List{0, 1}));
  EXPECT_EQ(cores_of_rank(cores, 4, 5), (List{2}));
  EXPECT_EQ(cores_of_rank(cores, 0, 1), cores);
  EXPECT_EQ(cores_of_rank({}, 3, 4), List{});
}

TEST(Cores, ThatAreNotThereAreNamed) {
  EXPECT_EQ(problem_with_cores(allowed()), "");
  EXPECT_EQ(problem_with_cores({}), "");
  EXPECT_TRUE(problem_with_cores({allowed()[0], 1023})
                  .starts_with("this machine has no core 1023: its cores are 0 to "))
      << problem_with_cores({allowed()[0], 1023});
  EXPECT_THROW(use_cores({1023}), InputError);
}

TEST(Cores, AreThoseOfAllThreadsAndOfNewOnes) {
  const List before = allowed(), last = {before.back()};
  const int count = usable_cores();
  use_cores({});
  EXPECT_EQ(allowed(), before);
  use_cores(last);
  EXPECT_EQ(allowed(), last);
  EXPECT_EQ(usable_cores(), count) << "what the process started with";
  List of_thread;
  std::thread([&] { of_thread = allowed(); }).join();
  EXPECT_EQ(of_thread, last);
  {
    const OnAllCores all;
    EXPECT_EQ(allowed(), before);
  }
  EXPECT_EQ(allowed(), last);
  use_cores(before);
  EXPECT_EQ(allowed(), before);
}

}  // namespace
}  // namespace hydrac::runtime
