#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "diag/diagnostic.h"

namespace hydrac::diag {
namespace {

TEST(Kinds, HaveDashedIdsAndSeverities) {
  EXPECT_EQ(id(Kind::heads_divide_width), "heads-divide-width");
  EXPECT_EQ(severity(Kind::heads_divide_width), Severity::error);
  EXPECT_EQ(severity(Kind::no_effect), Severity::warning);
}

TEST(Kinds, AreDistinctAndDescribed) {
  std::set<std::string> ids;
  for (const Kind kind : all_kinds()) {
    EXPECT_TRUE(ids.insert(id(kind)).second) << id(kind);
    EXPECT_FALSE(doc(kind).empty()) << id(kind);
  }
  EXPECT_EQ(ids.size(), all_kinds().size());
}

}  // namespace
}  // namespace hydrac::diag
