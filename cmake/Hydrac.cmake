# The two functions with which every folder declares itself.

# hydrac_library(NAME [DEPENDS lib...]): every .cpp of this folder as one static library with the project's
# warnings. Headers are included from the roots `compiler/` ("ir/graph.h") and the repository ("runtime/arena.h").
function(hydrac_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/compiler
                             ${PROJECT_SOURCE_DIR}/templates ${PROJECT_SOURCE_DIR}/templates/include)
  target_compile_options(${name} PRIVATE ${HYDRAC_WARNINGS})
  target_link_libraries(${name} PUBLIC fmt::fmt-header-only ${ARG_DEPENDS})
endfunction()

# hydrac_test(NAME DEPENDS lib... [SOURCES file...]): a GoogleTest program, by default from every .cpp here.
# It is registered under its own name; `./dev test` runs the program and adds up GoogleTest's own counts.
function(hydrac_test name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${HYDRAC_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/templates
                             ${PROJECT_SOURCE_DIR}/templates/include)
  target_compile_definitions(${name} PRIVATE HYDRAC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

set(HYDRAC_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers
    -Wno-maybe-uninitialized)  # g++ 12 sees ghosts in std::variant

# hydrac_embed(LIBRARY ROOT folder FILES file... HEADER h NAMESPACE n TYPE t FUNCTION f): adds to LIBRARY a function
# `const std::vector<TYPE>& FUNCTION()` that returns the FILES (relative to ROOT), each as {path, text}.
function(hydrac_embed library)
  cmake_parse_arguments(ARG "" "ROOT;HEADER;NAMESPACE;TYPE;FUNCTION" "FILES" ${ARGN})
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/embedded_${ARG_FUNCTION}.cpp)
  list(TRANSFORM ARG_FILES PREPEND ${ARG_ROOT}/ OUTPUT_VARIABLE paths)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DROOT=${ARG_ROOT} "-DFILES=${ARG_FILES}" -DOUTPUT=${embedded} -DHEADER=${ARG_HEADER}
            -DNAMESPACE=${ARG_NAMESPACE} -DTYPE=${ARG_TYPE} -DFUNCTION=${ARG_FUNCTION} -P ${script}
    DEPENDS ${paths} ${script}
    VERBATIM)
  target_sources(${library} PRIVATE ${embedded})
endfunction()
