// The families of models that hydrac has, each in a file of its own. A new one is also in the list of
// family.cpp.
#pragma once
#include "spec/hugging_face/family.h"

namespace hydrac::spec {

Family gpt2();
Family llama();
Family mistral();
Family qwen2();
Family qwen3();
Family olmo2();
Family gemma();
Family gemma2();
Family arcee();
Family granite();
Family smollm3();
Family olmo3();
Family exaone4();
Family ministral();
Family gemma3();
Family phi3();
Family stablelm();
Family helium();
Family glm();
Family glm4();
Family nemotron();
Family cohere();
Family cohere2();
Family falcon();
Family gpt_bigcode();
Family gpt_neox();
Family phi();
Family gptj();
Family starcoder2();
Family ernie4_5();
Family mixtral();
Family qwen3_moe();
Family olmoe();
Family own_models();

}  // namespace hydrac::spec
