// `hydrac report`: pages that a browser shows without a word in its console. Where there is no Chromium, what
// the pages hold is compared all the same, and the browser's part skips.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "tests/e2e/cli.h"
#include "tests/unit/support/command.h"

namespace hydrac::e2e {
namespace {

using test::slurp;
using test::spill;

constexpr const char* kHostile = "</script><img src=x onerror=document.title='pwned'><b id=injected>";

std::string output_of(const std::string& command) {
  return test::run_command(command).output;
}

// $HYDRAC_CHROMIUM, or what apt installs.
std::string chromium() {
  if (const char* named = std::getenv("HYDRAC_CHROMIUM")) return named;
  std::string path = output_of("command -v chromium chromium-browser google-chrome | head -n 1");
  return path.substr(0, path.find('\n'));
}

struct Shown {
  std::string root, page;  // the document's first tag, and what its scripts drew
  std::string console;     // its lines, errors among them
};

Shown show(const fs::path& page, const std::string& more = "") {
  const std::string log = page.string() + ".log";
  const std::string profile = page.string() + ".profile";
  Shown shown;
  const std::string document =
      output_of("timeout 120 '" + chromium() + "' --headless=new --no-sandbox --disable-gpu " + more +
                " --user-data-dir='" + profile + "' --enable-logging=stderr --dump-dom 'file://" +
                page.string() + "' 2>'" + log + "'");
  shown.root = document.substr(0, document.find("<head>"));
  const size_t begin = document.find("<main"), end = document.find("</main>");
  if (end != std::string::npos) shown.page = document.substr(begin, end - begin);
  shown.console = output_of("grep CONSOLE '" + log + "'");
  return shown;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A run, its spec and a table, made once; strings in them try to leave the page's data.
class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string spec = base_spec();
    spill(place_ / "hostile.yaml", spec + "  prompt: \"" + kHostile + "\"\n");
    ASSERT_EQ(place_.run({"hostile.yaml", "-q", "output.dir=runs/a"}).code, 0);
    ASSERT_EQ(
        place_.run({"hostile.yaml", "-q", "output.dir=runs/b", "train.optimizer.learning_rate=auto"}).code,
        0);
    spill(
        place_ / "table.json",
        std::string(R"({"spec": ")") + kHostile + R"(", "target": "h100", "steps": 20, "rows": [)" +
            R"({"name": "plain fp32", "kind": "baseline", "overrides": [], "tokens_per_second": 1000, "step_ms": 8, )" +
            R"("planned_bytes": 1000000, "first_step_s": 1.5, "loss": 4.1},)" +
            R"({"name": "plain + bf16", "kind": "with", "overrides": ["optimizations.precision=bf16"], )" +
            R"("tokens_per_second": 3000, "step_ms": 2.6, "planned_bytes": 600000, "first_step_s": 1.5, "loss": 4.11},)" +
            R"({"name": "plain + streams", "kind": "with", "overrides": ["optimizations.streams=2"], )" +
            R"("tokens_per_second": 1010, "step_ms": 7.9, "step_ms_rounds": [7.5, 7.9, 8.2], )" +
            R"("effect": {"against": "plain fp32", "speed": 1.01, "least": 0.98, "most": 1.06, "within_spread": true}, )" +
            R"("planned_bytes": 600000, "first_step_s": 1.5, "loss": 4.1},)" +
            R"({"name": "plain + fp8", "kind": "with", "overrides": [], "impossible": "<i>no fp8</i>"}]})");
  }
  std::string page(const Words& words, const std::string& file) const {
    const Outcome outcome = place_.run(with(with({"report"}, words), {"-o", file}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? slurp(place_ / file) : "";
  }

  const Workplace place_;
};

TEST_F(Report, PagesAreCompleteAndEscaped) {
  const std::pair<Words, std::string> pages[] = {{{"runs/a"}, "\"kind\":\"run\""},
                                                 {{"runs/a", "runs/b/"}, "\"path\":\"runs/b\""},
                                                 {{"runs/b"}, "\"range_test\":{\"learning_rate\":"},
                                                 {{"hostile.yaml"}, "\"decisions\":"},
                                                 {{"hostile.yaml", "target=h100"}, "\"floor_seconds\":"},
                                                 {{"table.json"}, "\"kind\":\"ablation\""}};
  for (const auto& [words, part] : pages) {
    const std::string text = page(words, "page.html");
    EXPECT_NE(text.find(part), std::string::npos) << part;
    EXPECT_EQ(text.find("<img"), std::string::npos) << words[0];
    EXPECT_EQ(text.find("http"), text.find("http-equiv")) << words[0];
    EXPECT_EQ(count(text, "http"), count(text, "http-equiv") + count(text, "http://www.w3.org/2000/svg"));
    EXPECT_EQ(count(text, "</script>"), 2) << words[0];
  }
}

TEST_F(Report, SaysWhatItCannotShow) {
  spill(place_ / "other.json", "{\"spec\": \"x\"}");
  spill(place_ / "foreign.html", "<html>mine</html>");
  fs::create_directories(place_ / "broken");
  spill(place_ / "broken/metrics.jsonl", "{\"step\": 1}\nnonsense\n");
  spill(place_ / "broken/spec.yaml", "name: broken\n");
  fs::copy(place_ / "runs/b", place_ / "changed", fs::copy_options::recursive);
  spill(place_ / "changed/range_test.json", "{\"points\": [{\"learning_rate\": \"1\"}]}");
  const std::pair<Words, std::string> cases[] = {
      {{}, "report of what?"},
      {{"nowhere"}, "nowhere holds no run: it has no metrics.jsonl"},
      {{"broken"}, "broken/metrics.jsonl:2: this line is no record with a \"step\""},
      {{"changed"}, "changed/range_test.json is no range test that a run wrote"},
      {{"other.json"}, "other.json is no table of `hydrac bench"},
      {{"table.json", "table.json"}, "a page shows one table"},
      {{"runs/a", "train.max_steps=3"}, "keys can be changed of a spec only"},
      {{"runs/a", "-o", "foreign.html"}, "foreign.html is there already and is no report of hydrac's"},
      {{"runs/a", "runs/a", "runs/a", "runs/a", "runs/a", "runs/a", "runs/a"}, "up to 6 runs, not 7"},
      {{"missing.yaml"}, "missing.yaml"}};
  for (const auto& [words, said] : cases) {
    const Outcome outcome = place_.run(with({"report"}, words));
    EXPECT_EQ(outcome.code, 2) << said;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << said << " in\n" << outcome.err;
  }
  EXPECT_EQ(slurp(place_ / "foreign.html"), "<html>mine</html>");
  EXPECT_FALSE(fs::exists(place_ / "report.html"));
}

// What a run that is going on has written half is left out.
TEST_F(Report, ShowsARunThatIsNotComplete) {
  const std::string records = slurp(place_ / "runs/a/metrics.jsonl");
  spill(place_ / "runs/a/metrics.jsonl", records + "{\"step\":13,\"lo");
  EXPECT_EQ(page({"runs/a"}, "half.html").find("\"step\":13"), std::string::npos);
}

// A run and what it was after a tenth of its steps: their thick lines are one line.
TEST_F(Report, EqualLossesAreDrawnAsOneLine) {
  if (chromium().empty()) GTEST_SKIP() << "no page was opened in a browser: apt-get install chromium";
  for (const int steps : {400, 40}) {
    std::string records;
    for (int step = 1; step <= steps; ++step)
      records += fmt::format("{{\"step\":{},\"loss\":{}}}\n", step, 9.0 / step + step * 7 % 5);
    const fs::path run = place_ / fmt::format("runs/{}", steps);
    fs::create_directories(run);
    spill(run / "metrics.jsonl", records);
    spill(run / "spec.yaml", base_spec());
  }
  ASSERT_NE(page({"runs/400", "runs/40"}, "page.html"), "");
  const std::string drawn = show(place_ / "page.html").page;
  const std::regex thick("class=\"series \" d=\"([^\"]*)\"");
  std::vector<std::string> lines;
  for (std::sregex_iterator line(drawn.begin(), drawn.end(), thick), end; line != end; ++line)
    lines.push_back((*line)[1]);
  ASSERT_EQ(lines.size(), 2u) << drawn;
  EXPECT_EQ(count(lines[1], "L"), 39);
  EXPECT_TRUE(lines[0].starts_with(lines[1])) << lines[0] << "\n" << lines[1];
}

TEST_F(Report, AMetricThatNoChartNamesHasAChartOfItsOwn) {
  if (chromium().empty()) GTEST_SKIP() << "no page was opened in a browser: apt-get install chromium";
  spill(place_ / "runs/a/metrics.jsonl",
        "{\"step\":1,\"loss\":2,\"expert_load\":0.5}\n{\"step\":2,\"expert_load\":0.7}\n");
  ASSERT_NE(page({"runs/a"}, "page.html"), "");
  EXPECT_NE(show(place_ / "page.html").page.find("expert load</"), std::string::npos);
}

TEST_F(Report, BrowsersShowItWithoutAnError) {
  if (chromium().empty()) GTEST_SKIP() << "no page was opened in a browser: apt-get install chromium";
  struct Case {
    Words words;
    std::vector<std::string> marks;  // at least one of each
  };
  const Case cases[] = {
      {{"runs/a"}, {"class=\"series", "Learning rate", "Throughput", "class=\"tile\""}},
      {{"runs/b"}, {"Range test", "chosen: "}},
      {{"runs/a", "runs/b"}, {"Range test", "class=\"series dashed\"", "train.optimizer.learning_rate"}},
      {{"hostile.yaml"}, {"class=\"mark call\"", "tensor\"", "class=\"mark bar\""}},
      {{"hostile.yaml", "target=h100"}, {"class=\"mark kernel\"", "TFLOP/s"}},
      {{"table.json"},
       {"class=\"mark bar\"", "not possible", "tokens/s", "class=\"spread\"", "1.01k  (1.01x) ≈"}}};
  for (const char* scheme : {"", "--blink-settings=preferredColorScheme=0"}) {
    for (const Case& one : cases) {
      ASSERT_NE(page(one.words, "page.html"), "");
      const Shown shown = show(place_ / "page.html", scheme);
      EXPECT_EQ(shown.console, "") << one.words[0];
      for (const std::string& mark : one.marks)
        EXPECT_GT(count(shown.page, mark), 0) << mark << " of " << one.words[0];
      EXPECT_EQ(count(shown.page, "<img"), 0) << "a string of the spec became markup";
      EXPECT_EQ(count(shown.page, "id=\"injected\""), 0);
      EXPECT_EQ(count(shown.page, "NaN"), 0) << one.words[0];
      EXPECT_EQ(count(shown.page, "undefined"), 0) << one.words[0];
      EXPECT_NE(shown.root.find(*scheme ? "dark" : "light"), std::string::npos) << shown.root;
    }
  }
}

}  // namespace
}  // namespace hydrac::e2e
