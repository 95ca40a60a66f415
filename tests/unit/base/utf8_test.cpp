#include "runtime/base/utf8.h"

#include <gtest/gtest.h>

namespace hydrac::runtime {
namespace {

TEST(Utf8Length, CountsTheBytesOfAWellFormedCharacter) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa9"), 2u);
  EXPECT_EQ(utf8_length("\xe2\x82\xac"), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80"), 4u);
}

TEST(Utf8Length, RefusesWhatIsMalformed) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("\x80"), 0u);              // a continuation byte
  EXPECT_EQ(utf8_length("\xc3"), 0u);              // cut off
  EXPECT_EQ(utf8_length("\xc0\xaf"), 0u);          // longer than needed
  EXPECT_EQ(utf8_length("\xe0\x80\xaf"), 0u);      // longer than needed
  EXPECT_EQ(utf8_length("\xed\xa0\x80"), 0u);      // a surrogate
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80"), 0u);  // beyond Unicode
  EXPECT_EQ(utf8_length("\xff"), 0u);
}

}  // namespace
}  // namespace hydrac::runtime
