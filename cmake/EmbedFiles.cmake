# Writes files as C++ string constants, so that the binary carries what it compiles at run time.
# Called as a script: -DROOT=templates -DFILES=a;b -DOUTPUT=file.cpp, and what the C++ file says:
# -DHEADER=declares_it.h -DNAMESPACE=hydrac::targets -DTYPE=TemplateFile (path, text) -DFUNCTION=template_files.
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
string(APPEND text "const std::vector<${TYPE}>& ${FUNCTION}() {\n  static const std::vector<${TYPE}> files = {\n")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "      {\"${file}\", R\"hydrac__(${content})hydrac__\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
