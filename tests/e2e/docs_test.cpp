// `hydrac docs` prints the pages of docs/.
#include <gtest/gtest.h>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

TEST(Docs, AreInTheProgram) {
  const Workplace place;
  const fs::path pages = fs::path(test::source_dir()) / "docs";
  EXPECT_EQ(place.run({"docs"}).out, test::slurp(pages / "README.md"));
  for (const char* name : {"data", "data.md", "docs/data.md"})
    EXPECT_EQ(place.run({"docs", name}).out, test::slurp(pages / "data.md")) << name;
  EXPECT_EQ(place.run({"docs", "architecture/graph"}).out, test::slurp(pages / "architecture/graph.md"));
}

TEST(Docs, NamesTheNearestPage) {
  const Workplace place;
  const Outcome unknown = place.run({"docs", "memmory"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(
      unknown.err,
      "hydrac: error: there is no page memmory: memory is nearest; `hydrac docs` lists them by question\n");
  EXPECT_EQ(place.run({"docs", "data", "memory"}).code, 2);
}

}  // namespace
}  // namespace hydrac::e2e
