# What a build knows of itself, as C++ constants for compiler/cli/version.cpp. Run as a script whenever HEAD moves:
# -DOUTPUT=file -DSOURCE=the checkout -DVERSION=0.2.0 -DCOMPILER="GNU 12.2.0". A commit only where there is a checkout: a
# package's sources have none.
set(commit "")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(commit "")
  endif()
endif()
file(WRITE ${OUTPUT} "constexpr const char* kVersion = \"${VERSION}\";
constexpr const char* kCommit = \"${commit}\";
constexpr const char* kCompiler = \"${COMPILER}\";
")
