// The weights that a run begins with: those of a folder in Hugging Face's format, mapped into memory and
// rounded to the program's type as they are copied.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

class WeightFiles {
 public:
  // `path`: a folder with model.safetensors, or with model.safetensors.index.json and the files that it
  // names; or one safetensors file. Maps and checks all of them. InputError: unreadable, damaged, an index
  // that does not fit its files, a tensor twice.
  explicit WeightFiles(const std::filesystem::path& path);

  // Checks that these files hold exactly the parameters of `program`; for adapters, those of the base model.
  // The program need not be initialized. Names may lack the base model's prefix, as in GPT-2's published
  // files. A head that the program ties to the embedding may be there too, if it is equal. Constants of
  // transformers' modules (attention masks, rope's frequencies), and biases and position embeddings of zeros,
  // are ignored. InputError that lists the tensors that are missing, unexpected, or of another shape or no
  // floating-point type.
  void check(StepProgram& program) const { check(filled(program)); }
  // The same of a program that is only planned, by its filled() parameters.
  void check(const std::vector<NamedTensor>& parameters) const;

  // Copies them into `program`. InputError as of check(); nothing is copied then.
  void fill(StepProgram& program) const;
  // The parameters that fill() fills: all, or for adapters those of the model beside them.
  static std::vector<NamedTensor> filled(StepProgram& program);
  // program.initialize(), which then draws nothing that these files have, and fill().
  void start(StepProgram& program) const;

  // Checks that they hold the parameters of the encoder of `program` (ProgramTensors::encoder), of any
  // floating-point type; other tensors, such as a pooler or a head, are ignored. Names may begin with
  // "bert.". InputError that lists the tensors that are missing, or of another shape or type.
  void check_encoder(StepProgram& program) const;
  // Copies them into `program`, which is started. InputError as of check_encoder(); nothing is copied then.
  void fill_encoder(StepProgram& program) const;

  // Fingerprint of names, types and shapes, and of all bytes of every tensor, or of its beginning. The
  // beginning is enough to tell apart other models, and weights that were trained further.
  enum class Reads { beginnings, everything };
  std::string fingerprint(Reads reads = Reads::beginnings) const;

  // Type of all tensors, if they have one; F32 otherwise.
  SafetensorsDtype dtype() const;

  // "models/llama: 291 tensors of BF16 in 2 files"
  std::string description() const;

 private:
  struct Found {
    const SafetensorsReader* file = nullptr;
    const TensorEntry* tensor = nullptr;
  };

  void add(const std::filesystem::path& file);
  void add_index(const std::filesystem::path& folder, const std::filesystem::path& index);
  Found find(std::string_view name) const;
  Found find_of_encoder(const std::string& name) const;

  std::string label_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, Found, std::less<>> tensors_;
};

}  // namespace hydrac::runtime
