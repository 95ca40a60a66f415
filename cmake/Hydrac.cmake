# The two functions with which every folder declares itself.

# Several files of a folder are compiled as one (a unity build): parsing the standard library's headers is most of a file's time.
# OFF compiles each by itself, which shows a file that lacks an #include.
option(HYDRAC_UNITY "compile several files of a folder at once, which builds a fresh clone in half the time" ON)
set(HYDRAC_UNITY_FILES 12 CACHE STRING "how many files are one unit; the fewer, the faster an edit compiles")

if(NOT HYDRAC_FMT)
  set(HYDRAC_FMT fmt::fmt)
endif()

# hydrac_library(NAME [PARTS folder...] [DEPENDS lib...] [SEPARATE]): every .cpp of this folder, and of the folders in it
# that PARTS names, as one static library with the project's warnings. Headers are included from the roots `compiler/` ("ir/graph.h") and the repository ("runtime/arena.h").
# SEPARATE: files that use the same names for their own functions, so each is compiled by itself. FAST: what is most of the
# time between a spec and its first step is compiled with -O2 in a release, the rest with -O1, which takes a fifth less.
function(hydrac_library name)
  cmake_parse_arguments(ARG "SEPARATE;FAST" "" "PARTS;DEPENDS" ${ARGN})
  list(TRANSFORM ARG_PARTS APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp ${ARG_PARTS})
  add_library(${name} STATIC ${sources})
  if(HYDRAC_UNITY AND NOT ARG_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HYDRAC_UNITY_FILES})
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/compiler
                             ${PROJECT_SOURCE_DIR}/templates ${PROJECT_SOURCE_DIR}/templates/include)
  target_compile_options(${name} PRIVATE ${HYDRAC_WARNINGS})
  if(NOT ARG_FAST)
    target_compile_options(${name} PRIVATE ${HYDRAC_OPTIMIZE_LESS})
  endif()
  target_link_libraries(${name} PUBLIC ${HYDRAC_FMT} ${ARG_DEPENDS})
endfunction()

# hydrac_test(NAME DEPENDS lib... [SOURCES file...] [SEPARATE]): a GoogleTest program, by default from every .cpp here.
# SEPARATE as for a library.
# It is registered under its own name; `./dev test` runs the program and adds up GoogleTest's own counts.
function(hydrac_test name)
  cmake_parse_arguments(ARG "SEPARATE" "" "DEPENDS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(HYDRAC_UNITY AND NOT ARG_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HYDRAC_UNITY_FILES})
  endif()
  target_compile_options(${name} PRIVATE ${HYDRAC_WARNINGS} ${HYDRAC_OPTIMIZE_LESS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/templates
                             ${PROJECT_SOURCE_DIR}/templates/include)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} test_source_dir GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# Warnings are errors with the compiler that continuous integration has: what another one says must not keep a user from
# building.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(HYDRAC_WARNINGS -Wall -Wextra -Werror)
else()
  set(HYDRAC_WARNINGS -Wall -Wextra)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND HYDRAC_WARNINGS -Wno-dangling-reference)  # it suspects every reference that a function returns
endif()
list(APPEND HYDRAC_WARNINGS -Wno-missing-field-initializers
     -Wno-maybe-uninitialized  # g++ 12 sees ghosts in std::variant
     -Wno-subobject-linkage)   # of a unity build's parts, where g++ takes a .cpp for a header

set(HYDRAC_OPTIMIZE_LESS $<$<CONFIG:Release>:-O1>)

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
