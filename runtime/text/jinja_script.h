// The Python that renders chat templates (jinja_renderer.h says what it is asked and answers).
#pragma once

namespace hydrac::runtime {

extern const char* const kJinjaScript;

}  // namespace hydrac::runtime
