// The templates that hydrac ships, specialized: nothing of the templates is left to read, and they compute
// the same bits.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <regex>

#include "specialize/check.h"
#include "targets/cpu/jit.h"
#include "targets/device_code/nvrtc.h"
#include "targets/templates/templates.h"
#include "tests/unit/specialize/entries.h"
#include "tests/unit/specialize/whole_text.h"
#include "tests/unit/support/needs_nvrtc.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::specialize {
namespace {

using test::CudaAttention;

std::string specialized(const std::string& entry, int capability) {
  SpecializeRequest request;
  request.entries = {{"kernel.cu", entry}};
  request.capability = capability;
  request.scope = "hydrac::kernel";
  return test::whole_text(request);
}

std::vector<CudaAttention> cuda_attentions() {
  std::vector<CudaAttention> all;
  for (const char* kernel : {"forward", "query_gradients", "key_gradients"}) {
    all.push_back({.kernel = kernel});
    all.push_back({.kernel = kernel, .head_dim = 128, .mask = "FullMask", .kv_heads = 4});
    all.push_back({.kernel = kernel, .has_dropout = true, .tokens = 1000});
    all.push_back({.kernel = kernel, .capability = 80, .head_dim = 128, .has_dropout = true});
    all.push_back({.kernel = kernel, .capability = 80, .head_dim = 256, .tokens = 1000});
    all.push_back({.kernel = kernel, .capability = 75, .type = "f16", .head_dim = 96, .kv_heads = 4});
    all.push_back({.kernel = kernel, .capability = 75, .type = "float", .mask = "FullMask"});
    all.push_back({.kernel = kernel, .capability = 120, .type = "f16", .has_dropout = true});
    all.push_back({.kernel = kernel, .mask = "WindowMask", .tokens = 1000});
    all.push_back({.kernel = kernel, .has_dropout = true, .mask = "WindowMask", .has_softcap = true});
    all.push_back({.kernel = kernel, .capability = 80, .mask = "WindowMask", .has_softcap = true});
    all.push_back({.kernel = kernel, .capability = 75, .type = "float", .has_softcap = true});
    all.push_back({.kernel = kernel, .has_documents = true});
    all.push_back(
        {.kernel = kernel, .head_dim = 128, .mask = "WindowMask", .kv_heads = 4, .has_documents = true});
    all.push_back(
        {.kernel = kernel, .capability = 80, .has_dropout = true, .tokens = 1000, .has_documents = true});
    all.push_back({.kernel = kernel, .capability = 75, .type = "float", .has_documents = true});
  }
  for (const char* kernel : {"query_terms", "gradients"}) {
    all.push_back({.kernel = kernel});
    all.push_back({.kernel = kernel, .type = "f16", .has_dropout = true, .tokens = 1000, .kv_heads = 4});
  }
  all.push_back({.kernel = "gradients", .mask = "WindowMask"});
  all.push_back({.kernel = "gradients", .has_dropout = true, .mask = "FullMask", .has_softcap = true});
  all.push_back({.kernel = "head_gradients", .mask = "WindowMask", .has_softcap = true, .tokens = 256});
  all.push_back({.kernel = "head_gradients", .tokens = 256});
  all.push_back({.kernel = "head_gradients", .has_dropout = true, .mask = "FullMask", .tokens = 150});
  all.push_back({.kernel = "head_gradients", .type = "f16", .tokens = 64});
  return all;
}

std::vector<std::string> cuda_embeddings() {
  return {test::cuda_embedding_entry("hydrac::bf16", "float", true),
          test::cuda_embedding_entry("float", "float", false),
          test::cuda_embedding_entry("hydrac::f16", "hydrac::f16", false)};
}

// Template arguments such as <64, true> that an entry or the text still spells, but for those of the
// library's for_kept.
std::vector<std::string> argument_lists(const std::string& text) {
  const std::regex list("\\w+<[^<>;(]*\\b(true|false)\\b[^<>;(]*>");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), list), end; it != end; ++it) {
    const bool is_of_library = it->str().starts_with("for_kept<") || it->str().starts_with("RunningSoftmax<");
    if (!is_of_library) found.push_back(it->str());
  }
  return found;
}

int longest_function(const std::string& text) {
  int longest = 0, lines = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines = line.empty() || line[0] != '}' ? lines + 1 : 0;
    if (line.empty()) lines = lines == 1 ? 0 : lines;
    longest = std::max(longest, lines);
  }
  return longest;
}

TEST(Templates, SpecializedTextHasNoConstantsOfTheTemplatesLeft) {
  for (const CudaAttention& attention : cuda_attentions()) {
    const std::string text = specialized(test::cuda_attention_entry(attention), attention.capability);
    EXPECT_EQ(argument_lists(text), std::vector<std::string>{}) << attention.name();
    for (const char* gone : {"Config", "__CUDA_ARCH__", "typename", "static_assert", "HYDRAC_WGMMA"})
      EXPECT_EQ(text.find(gone), std::string::npos) << attention.name() << ": " << gone << "\n" << text;
    EXPECT_NE(text.find("constexpr int kHeadDim = "), std::string::npos) << attention.name();
    EXPECT_NE(text.find("// What it computes.\nextern \"C\""), std::string::npos) << attention.name();
    EXPECT_LT(longest_function(text), 300) << attention.name();
    EXPECT_EQ(formatted(text), text) << attention.name();
  }
}

// Which Emit's own programs ask of few of them: nothing unused, no loop that runs once, no needless cast.
TEST(Templates, SpecializedTextHasNothingThatEmissionRefuses) {
  for (const CudaAttention& attention : cuda_attentions()) {
    EmittedProgram program{
        {{"kernels/attention.cu", specialized(test::cuda_attention_entry(attention), attention.capability)}},
        template_headers(),
        attention.capability};
    EXPECT_NO_THROW(check_parses(program)) << attention.name();
  }
}

TEST(Templates, ProcessorTimeOfGpt2sKernels) {
  const std::clock_t start = std::clock();
  for (const char* kernel : {"forward", "query_terms", "gradients"})
    specialized(test::cuda_attention_entry({.kernel = kernel}), 90);
  specialized(cuda_embeddings()[0], 90);
  RecordProperty("milliseconds", static_cast<int>(1000 * (std::clock() - start) / CLOCKS_PER_SEC));
  std::cout << "gpt2's kernels: " << 1000 * (std::clock() - start) / CLOCKS_PER_SEC << " ms\n";
}

class SameCode : public hydrac::test::NeedsNvrtc {};

// Without what names and the order of declarations decide.
std::string ptx_of(const std::string& source, int capability) {
  device_code::CompileRequest request;
  request.source = source;
  request.capability = capability;
  request.kind = device_code::CodeKind::ptx;
  request.options = {"--device-as-default-execution-space"};
  for (const targets::TemplateFile& file : targets::template_files()) {
    std::string name = file.path;
    for (const std::string prefix : {"cuda/nvrtc/", "include/"}) {
      if (name.starts_with(prefix)) name = name.substr(prefix.size());
    }
    if (!name.starts_with("cpu/")) request.headers.emplace_back(name, file.text);
  }
  // Constants have a place of their own in memory, which nobody reads.
  const std::regex constant("\\.global \\.align \\d+ \\.\\w+ \\w+(\\[\\d+\\])?( = [^;]*)?;\n");
  const std::string ptx = std::regex_replace(device_code::compile(request).image, constant, "");
  std::map<std::string, std::string> names;
  std::string text;
  const std::regex symbol("_Z[A-Za-z0-9_$]+");
  std::size_t at = 0;
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), symbol), end; it != end; ++it) {
    text.append(ptx, at, it->position() - at);
    text += names.try_emplace(it->str(), fmt::format("symbol{}", names.size())).first->second;
    at = it->position() + it->length();
  }
  return text.append(ptx, at);
}

// How often each instruction stands there that computes with floats.
std::map<std::string, int> arithmetic(const std::string& ptx) {
  const std::regex instruction(
      R"((add|sub|mul|fma|ex2|lg2|rcp|div|max|min|cvt|mma|wgmma)\.[\w.]*(f16|f32|mma)[\w.]*)");
  std::map<std::string, int> counts;
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), instruction), end; it != end; ++it)
    ++counts[it->str()];
  return counts;
}

// Whether two texts do the same. NVRTC adds the terms of an address of attention_gradients in another order
// in one of the two, and shares the divisions that find a block's sequence of documents in one of them only.
bool are_alike(const std::string& a, const std::string& b, bool exactly) {
  return exactly ? a == b : arithmetic(a) == arithmetic(b);
}

void expect_same_ptx(const std::string& entry, int capability, const std::string& name, bool exactly = true) {
  const std::vector<int> known = device_code::nvrtc_capabilities();
  if (!std::binary_search(known.begin(), known.end(), capability)) return;
  const std::string plain = ptx_of(specialized(entry, capability), capability),
                    original = ptx_of(entry, capability);
  EXPECT_GT(original.size(), 1000u) << name;
  EXPECT_GT(arithmetic(original).size(), exactly ? 0u : 3u) << name;
  const bool same = are_alike(plain, original, exactly);
  EXPECT_TRUE(same) << name << ": the specialized kernel's PTX differs";
  if (!same && std::getenv("HYDRAC_KEEP")) {
    std::ofstream(std::string(std::getenv("HYDRAC_KEEP")) + "/plain.ptx") << plain;
    std::ofstream(std::string(std::getenv("HYDRAC_KEEP")) + "/original.ptx") << original;
  }
}

TEST_F(SameCode, AttentionKernelsCompileToTheSamePtx) {
  for (const CudaAttention& attention : cuda_attentions())
    expect_same_ptx(test::cuda_attention_entry(attention), attention.capability, attention.name(),
                    !attention.has_documents && attention.kernel != std::string("gradients"));
}

// As a program emits them: a header for what they share, and a source for each.
TEST_F(SameCode, KernelsThatShareAHeaderCompileToTheSamePtx) {
  for (CudaAttention attention :
       {CudaAttention{}, CudaAttention{.has_dropout = true}, CudaAttention{.head_dim = 128},
        CudaAttention{.capability = 80, .head_dim = 128, .has_dropout = true},
        CudaAttention{.capability = 75, .type = "f16", .head_dim = 64, .has_dropout = true}}) {
    const std::vector<int> known = device_code::nvrtc_capabilities();
    if (!std::binary_search(known.begin(), known.end(), attention.capability)) continue;
    SpecializeRequest request;
    const bool fused = attention.capability == 90 && attention.head_dim == 64;
    for (const char* kernel :
         {"forward", fused ? "query_terms" : "query_gradients", fused ? "gradients" : "key_gradients"}) {
      attention.kernel = kernel;
      request.entries.push_back({fmt::format("{}.cu", kernel), test::cuda_attention_entry(attention)});
    }
    request.capability = attention.capability;
    request.scope = "hydrac::kernel";
    const Specialized parts = specialize(request);
    EXPECT_NE(parts.shared.find("Fragment"), std::string::npos) << attention.name();
    for (std::size_t i = 0; i < parts.entries.size(); ++i) {
      EXPECT_EQ(parts.entries[i].own.find("struct Heads"), std::string::npos) << attention.name();
      std::string text = test::include_lines(parts);
      for (const std::string& code : {parts.shared, parts.entries[i].own})
        text += "namespace hydrac::kernel {\n" + code + "}\n";
      text += parts.entries[i].text;
      EXPECT_TRUE(are_alike(ptx_of(text, attention.capability),
                            ptx_of(request.entries[i].text, attention.capability),
                            request.entries[i].path != "gradients.cu"))
          << attention.name() << " " << request.entries[i].path;
    }
  }
}

TEST_F(SameCode, EmbeddingKernelsCompileToTheSamePtx) {
  for (const std::string& entry : cuda_embeddings()) {
    for (const int capability : {75, 90}) expect_same_ptx(entry, capability, entry);
  }
}

TEST_F(SameCode, MatmulsWithEpiloguesCompileToTheSamePtx) {
  for (const bool paired : {false, true})
    expect_same_ptx(test::cuda_matmul_entry(paired), 90, paired ? "paired matmul" : "matmul with sums");
}

TEST_F(SameCode, MatmulsOfOneTileCompileToTheSamePtx) {
  for (const bool ring : {false, true})
    expect_same_ptx(test::cuda_one_tile_matmul_entry(ring), 90, ring ? "in a ring" : "at once");
}

TEST_F(SameCode, WeightGradientsCompileToTheSamePtx) {
  for (const bool clusters : {false, true})
    expect_same_ptx(test::cuda_weight_gradients_entry(clusters), 90, clusters ? "by clusters" : "by blocks");
}

TEST_F(SameCode, KernelsOfExpertsCompileToTheSamePtx) {
  for (const auto& [name, entry] : test::cuda_expert_entries()) expect_same_ptx(entry, 90, name);
}

TEST_F(SameCode, MatmulsWithNormsCompileToTheSamePtx) {
  for (const bool wide : {false, true})
    expect_same_ptx(test::cuda_whole_rows_matmul_entry(wide), 90, wide ? "384 wide" : "256 wide");
}

// Their templates are shared, though each has an epilogue, and some a schedule, of their own.
TEST_F(SameCode, MatmulsThatShareAHeaderCompileToTheSamePtx) {
  SpecializeRequest request;
  for (const bool paired : {false, true})
    request.entries.push_back({fmt::format("matmul_{}.cu", paired), test::cuda_matmul_entry(paired)});
  request.entries.push_back({"one_tile.cu", test::cuda_one_tile_matmul_entry(true)});
  request.entries.push_back({"whole_rows.cu", test::cuda_whole_rows_matmul_entry(true)});
  request.scope = "hydrac::kernel";
  const Specialized parts = specialize(request);
  EXPECT_NE(parts.shared.find("template <class Config, class Epilogue>"), std::string::npos) << parts.shared;
  for (std::size_t i = 0; i < parts.entries.size(); ++i) {
    std::string text = test::include_lines(parts);
    for (const std::string& code : {parts.shared, parts.entries[i].own})
      text += "namespace hydrac::kernel {\n" + code + "}\n";
    text += parts.entries[i].text;
    EXPECT_TRUE(ptx_of(text, 90) == ptx_of(request.entries[i].text, 90)) << request.entries[i].path << "\n"
                                                                         << text;
  }
}

// ---- cpu

struct Tensors {
  std::vector<float> q, k, v, d_out, out, lse, d_q, d_k, d_v;
};

Tensors run(const std::string& source, int head_dim, const std::filesystem::path& cache) {
  const std::size_t rows = 2 * 70 * static_cast<std::size_t>(head_dim);
  Tensors t;
  unsigned state = 1;
  const auto random = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& x : values)
      x = static_cast<float>(static_cast<int>((state = state * 1664525u + 1013904223u) >> 8) - (1 << 23)) /
          (1 << 22);
    return values;
  };
  t.q = random(4 * rows), t.k = random(2 * rows), t.v = random(2 * rows), t.d_out = random(4 * rows);
  t.out.resize(4 * rows), t.d_q.resize(4 * rows), t.d_k.resize(2 * rows), t.d_v.resize(2 * rows);
  t.lse.resize(2 * 70 * 4);
  const targets::KernelLibrary library =
      targets::compile_kernels(source, cache, [](const targets::KernelLibrary&) { return targets::Tried{}; });
  auto* workspace = static_cast<char*>(std::aligned_alloc(64, 64 << 20));
  reinterpret_cast<void (*)(const float*, const float*, const float*, float*, float*, void*)>(targets::symbol(
      library, "forward"))(t.q.data(), t.k.data(), t.v.data(), t.out.data(), t.lse.data(), workspace);
  reinterpret_cast<void (*)(const float*, const float*, const float*, const float*, const float*,
                            const float*, float*, float*, float*, void*)>(
      targets::symbol(library, "backward"))(t.q.data(), t.k.data(), t.v.data(), t.out.data(), t.lse.data(),
                                            t.d_out.data(), t.d_q.data(), t.d_k.data(), t.d_v.data(),
                                            workspace);
  std::free(workspace);
  return t;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Templates, SpecializedCpuAttentionComputesTheSameBits) {
  const hydrac::test::TempDir cache;
  for (const auto& [head_dim, mask, scores, has_dropout] :
       {std::tuple(32, "CausalMask", "LinearScores", false), std::tuple(40, "FullMask", "LinearScores", true),
        std::tuple(32, "WindowMask", "CappedScores", true)}) {
    SpecializeRequest request;
    request.entries = {{"kernels.cpp", test::cpu_attention_entry(head_dim, mask, scores, has_dropout)}};
    request.dialect = Dialect::cpp;
    request.scope = "hydrac::kernels";
    const std::string text = test::whole_text(request);
    EXPECT_EQ(argument_lists(text), std::vector<std::string>{}) << text;
    const Tensors plain = run(text, head_dim, cache.path()),
                  original = run(request.entries[0].text, head_dim, cache.path());
    EXPECT_TRUE(same_bits(plain.out, original.out));
    EXPECT_TRUE(same_bits(plain.lse, original.lse));
    EXPECT_TRUE(same_bits(plain.d_q, original.d_q));
    EXPECT_TRUE(same_bits(plain.d_k, original.d_k));
    EXPECT_TRUE(same_bits(plain.d_v, original.d_v));
    EXPECT_NE(plain.out[5], 0.0f);
    EXPECT_NE(plain.d_k[5], 0.0f);
  }
}

}  // namespace
}  // namespace hydrac::specialize
