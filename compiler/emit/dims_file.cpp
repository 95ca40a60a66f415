#include "emit/dims_file.h"

#include <fmt/format.h>

#include <map>

#include "emit/on_cpu.h"
#include "emit/sizes.h"
#include "emit/writer.h"
#include "spec/hugging_face/encoder.h"

namespace hydrac::emit {

namespace {

std::string meaning(const std::string& symbol) {
  static const std::map<std::string, std::string> meanings = {
      {"B", "sequences of a micro-batch"},
      {"C", "width of the residual stream"},
      {"Cached", "tokens of a sequence whose keys and values are kept"},
      {"D", "width of an attention head"},
      {"Embeddings", "replies, rounded up to a matmul's rows"},
      {"F", "inner width of the mlp"},
      {"H", "attention heads"},
      {"K", "heads of keys and values"},
      {"Multiprocessors", "of the GPU: blocks that share a sum"},
      {"O", "outputs of the head"},
      {"P", "positions that have an embedding"},
      {"Prompts", "that are read at once"},
      {"Prompttokens", "tokens of a prompt, at most"},
      {"R", "tokens in a part of the head"},
      {"Rank", "rank of the adapters"},
      {"Sequences", "replies that are sampled side by side"},
      {"Sets", "prompts of a step"},
      {"Setsize", "replies to a prompt"},
      {"T", "tokens of a sequence"},
      {"Textheads", "attention heads of the encoder of replies"},
      {"Textheadwidth", "width of one of these"},
      {"Textinner", "inner width of the encoder's mlp"},
      {"Textpositions", "positions that have an embedding in the encoder"},
      {"Texts", "rows of texts that the encoder reads at once"},
      {"Texttokens", "tokens of such a row"},
      {"Texttypes", "types of tokens that have an embedding"},
      {"Textvocabulary", "tokens that the encoder knows"},
      {"Textwidth", "width of the encoder's residual stream"},
      {"Tokens", "tokens of a micro-batch whose residual stream a rank has"},
      {"Top", "largest logits of a row that are found"},
      {"V", "rows of the vocabulary's matrices, padding included"},
      {"Vocabulary", "those of all ranks together"},
      {"Width", "parameters that the optimizer sees as a row"},
  };
  if (symbol.starts_with("Rows")) return "rows of Width parameters";
  const auto found = meanings.find(symbol);
  return found == meanings.end() ? "" : found->second;
}

}  // namespace

SourceFile dims_file(const driver::Compiled& compiled) {
  Writer out;
  for (const program::Dimension& dimension : compiled.program.dimensions) {
    std::string comment = meaning(dimension.symbol);
    const bool is_part =
        compiled.spec.parallel.tensor > 1 && std::string("FHKV").find(dimension.symbol) != std::string::npos;
    if (is_part) comment += ", of a rank";
    out.line(fmt::format("inline constexpr std::int64_t {} = {};{}", dimension.symbol, dimension.size,
                         comment.empty() ? "" : "  // " + comment));
  }
  out.line(fmt::format("inline constexpr int L = {};  // layers", compiled.spec.model.num_hidden_layers));
  if (const spec::Encoder* encoder = spec::encoder_of_replies(compiled.spec))
    out.line(fmt::format("inline constexpr int kTextLayers = {};  // layers of the encoder of replies",
                         encoder->num_hidden_layers));
  if (const int parts = head_parts(compiled.program); parts > 0)
    out.line(fmt::format(
        "inline constexpr int kHeadParts = {};  // of a batch, one after another in the head", parts));
  if (compiled.spec.model.vocab_size > 0)
    out.line(fmt::format("inline constexpr std::int64_t kVocabSize = {};  // tokens",
                         compiled.spec.model.vocab_size));
  if (on_cpu(compiled)) out.line(fmt::format("{}{};", kThreadsLine, compiled.threads));
  return {"The sizes of the program, under the letters that comments write shapes with.",
          {"<cstdint>"},
          out.text(),
          ""};
}

}  // namespace hydrac::emit
