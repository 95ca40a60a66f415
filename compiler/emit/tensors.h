// The tensors of a program as fields of a struct: their C++ names, where in the arena they lie, and how code
// names one of their slots.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace hydrac::emit {

// A struct of tensors that live alike: "Weights weights".
struct Group {
  std::string type;      // of the struct
  std::string variable;  // in code
  std::string comment;
};

struct Field {
  ir::ValueId value = ir::kNoValue;
  int group = 0;  // position in Tensors::groups()
  std::string name;
  std::string type;  // of an element: "bf16"
  // Slot s begins at offset + (s % count) * stride bytes. count 1: all slots share the place, and the field
  // is a plain pointer.
  int64_t offset = 0;
  int64_t stride = 0;
  int count = 1;
};

// Positions in Tensors::groups() of the parameters and what has a tensor for each of them.
inline constexpr size_t kWeights = 2, kGradients = 3, kCopies = 4;
inline constexpr size_t kState = 7;
// Groups of an encoder of replies: its parameters, and the activations of its layers.
inline constexpr size_t kTextEncoder = 17, kEmbedding = 18;

class Tensors {
 public:
  explicit Tensors(const driver::Compiled& compiled);

  const std::vector<Group>& groups() const { return groups_; }
  // By group, and in a group in the order of first use (parameters and their like in order of declaration).
  const std::vector<Field>& fields() const { return fields_; }
  const Field& field(ir::ValueId value) const;
  // True if the group is one pack, laid out as the parameters are. Gradients of two types are two packs.
  bool is_packed(size_t group) const;
  int64_t pack(size_t group) const;  // where the pack of such a group begins, in bytes
  // As code writes numbers of slots: "L", or "kTextLayers" of an encoder's.
  std::string slots_text(const Field& field, int64_t slots) const;

  // "act.attn_qkv[l]", where `layer` is the text of the region's layer.
  std::string text(ir::Use use, const std::string& layer) const;
  // The same without its group, for comments.
  std::string short_text(ir::Use use) const;
  const Group& group_of(ir::ValueId value) const;

 private:
  void add(ir::ValueId value, const std::string& function);
  size_t group_for(const ir::Value& value, const std::string& function) const;
  bool is_of_encoder(const ir::Value& parameter) const;
  bool is_whole_pack(const ir::Value& value) const;
  std::string name_for(const ir::Value& value, size_t group) const;
  void order_by_group();

  const driver::Compiled& compiled_;
  std::vector<Group> groups_;
  std::vector<Field> fields_;
  std::map<ir::ValueId, size_t> by_value_;
};

std::string_view c_type(ir::DType dtype);  // "std::int32_t"

}  // namespace hydrac::emit
