#include "cli/verb.h"

int main(int argc, char** argv) { return hydrac::cli::main({argv + 1, argv + argc}); }
