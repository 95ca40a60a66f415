#include "emit/folder/written_out.h"

#include <gtest/gtest.h>

namespace hydrac::emit {
namespace {

TEST(WrittenOut, KeepsTheOrderOfOperators) {
  const NamedValues values = {{"s", "x + y"}, {"p", "x * y"}, {"c", "s < p"}};
  EXPECT_TRUE(is_written_out("z = s;", "z = x + y;", values));
  EXPECT_TRUE(is_written_out("z = s + p;", "z = x + y + x * y;", values));
  EXPECT_TRUE(is_written_out("z = f(s, p);", "z = f(x + y, (x * y));", values));
  EXPECT_TRUE(is_written_out("z = w * s;", "z = w * (x + y);", values));
  EXPECT_TRUE(is_written_out("z = c ? s : p;", "z = x + y < (x * y) ? x + y : p;", values));
  EXPECT_FALSE(is_written_out("z = w * s;", "z = w * x + y;", values));
  EXPECT_FALSE(is_written_out("z = w - s;", "z = w - x + y;", values));
  EXPECT_FALSE(is_written_out("z = -s;", "z = -x + y;", values));
  EXPECT_FALSE(is_written_out("z = s * w;", "z = x + y * w;", values));
  EXPECT_FALSE(is_written_out("z = s[0];", "z = x + y[0];", values));
}

// There are more sets of these values, and ways to write each out, than could be tried.
TEST(WrittenOut, ManyValuesAreComparedAtOnce) {
  NamedValues values = {{"v0", "x + y"}};
  std::string text = "x + y";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "v" + std::to_string(i - 1), term = " + w[" + std::to_string(i) + "]";
    values.emplace_back("v" + std::to_string(i), before + term);
    text += term;
  }
  EXPECT_TRUE(is_written_out("f(v39) + f(v38) + f(v37);", "f(" + text + ") + f(v38) + f(v37);", values));
  EXPECT_FALSE(is_written_out("f(v39) + f(v38) + f(v37);", "f(" + text + ") + f(v38) + g(v37);", values));
}

}  // namespace
}  // namespace hydrac::emit
