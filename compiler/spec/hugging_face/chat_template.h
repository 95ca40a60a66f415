// The model's own chat template, and the format of hydrac's that writes the same, for which no Jinja is run.
#pragma once
#include <optional>

#include "runtime/data/jinja_template.h"
#include "spec/spec.h"

namespace hydrac::spec {

// The template that data.chat_template: own runs. One that cannot be read has no source: opening the data
// says why.
std::optional<runtime::JinjaTemplate> own_template(const SpecKeys& spec);

// The format that is known to write conversations of role and content alone as the template does, or none.
ChatFormat format_like(const runtime::JinjaTemplate& own);

}  // namespace hydrac::spec
