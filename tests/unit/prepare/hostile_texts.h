// Texts that tokenizers get wrong.
#pragma once
#include <string>
#include <vector>

namespace hydrac::prepare {

inline std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts = {"",
                                    " ",
                                    "  ",
                                    "\n",
                                    "\n\n\n",
                                    "\r\n\r\n",
                                    " \n \n",
                                    "\t\t x",
                                    "a  b",
                                    "a \n b",
                                    " a ",
                                    "trailing  ",
                                    "<|endoftext|>",
                                    "a<|endoftext|>b",
                                    "<|endoftext|><|endoftext|>",
                                    " <|endoftext|> ",
                                    "<|endoftext|",
                                    "<|endoftext|>\n\nnext",
                                    "it's we'll they're I'd I've can't y'all 'S 'LL 's's",
                                    "1234567890 12.5e-3 0xFF ٣٤٥ ¼ ⅷ",
                                    "naïve café façade Ünïcödé",
                                    "e\u0301 vs \u00e9, \u1e9b\u0323",
                                    "日本語のテキスト。中文，没有空格",
                                    "한국어 텍스트",
                                    "שלום עולם",
                                    "नमस्ते दुनिया",
                                    "สวัสดีชาวโลก",
                                    "😀👩‍👩‍👧‍👦🏳️‍🌈 🇩🇪",
                                    "a\u00a0b\u2003c\u3000d\u200be\ufefff",
                                    "\u0085\u2028\u2029x",
                                    "\ufffd\uffff\U0010ffff",
                                    "\x01\x02\x7f\x1b[0m",
                                    "!!!???...---***",
                                    "a.b,c;d:e",
                                    "(((((",
                                    "_snake_case CamelCase kebab-case",
                                    "if (x != y) {\n\treturn x->y[0]++;\n}\n",
                                    "https://example.org/a?b=c&d=%20#e",
                                    "\"quotes\" \\back\\slash\\"};
  texts.push_back(std::string(3000, 'a'));
  texts.push_back(std::string(3000, ' ') + "x");
  texts.push_back(std::string(3000, '\n'));
  std::string mixed;
  for (int i = 0; i < 300; ++i) mixed += "ab a\n" + std::string(static_cast<size_t>(i % 7), ' ') + "é1";
  texts.push_back(mixed);
  for (const std::string& text : std::vector<std::string>(texts))
    texts.push_back("the" + text + "the \n" + text);
  return texts;
}

}  // namespace hydrac::prepare
