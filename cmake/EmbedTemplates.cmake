# Writes the templates as C++ string constants, so that the binary carries what it compiles at run time.
# Called as a script: -DROOT=templates -DOUTPUT=file.cpp -DFILES=a;b
set(text "#include \"targets/templates/templates.h\"\n\nnamespace hydrac::targets {\n\n")
string(APPEND text "const std::vector<TemplateFile>& template_files() {\n  static const std::vector<TemplateFile> files = {\n")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "      {\"${file}\", R\"hydrac__(${content})hydrac__\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace hydrac::targets\n")
file(WRITE ${OUTPUT} "${text}")
