#include "specialize/ast.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/Basic/TargetInfo.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Parse/ParseAST.h>
#include <clang/Sema/Sema.h>
#include <fmt/format.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <algorithm>
#include <stdexcept>

#include "specialize/needless.h"
#include "specialize/undone.h"

namespace hydrac::specialize {

namespace {

// Folder of a request's files in the virtual file system. Messages and Ast::path_of name them without it.
constexpr llvm::StringLiteral kSources = "/source/", kSystem = "/system/", kStandIns = "/stand-in/";

std::string without_root(llvm::StringRef path) {
  for (const llvm::StringRef root : {kSources, kSystem, kStandIns}) {
    if (path.consume_front(root)) break;
  }
  return path.str();
}

class Collector : public clang::DiagnosticConsumer {
 public:
  explicit Collector(std::vector<Problem>& problems) : problems_(problems) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level < clang::DiagnosticsEngine::Error) return;
    llvm::SmallString<128> message;
    info.FormatDiagnostic(message);
    Problem problem{"", 0, 0, std::string(message)};
    if (info.hasSourceManager() && info.getLocation().isValid()) {
      const clang::PresumedLoc place = info.getSourceManager().getPresumedLoc(info.getLocation());
      problem.file = without_root(place.getFilename());
      problem.line = static_cast<int>(place.getLine());
      problem.column = static_cast<int>(place.getColumn());
    }
    problems_.push_back(std::move(problem));
  }

 private:
  std::vector<Problem>& problems_;
};

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> virtual_files(const ParseRequest& request) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/");
  // The tree's places lead back into the texts, so they are the tree's own; the stand-ins are the binary's.
  for (const SourceFile& file : stand_in_headers())
    files->addFile(kStandIns + file.path, 0, llvm::MemoryBuffer::getMemBuffer(file.text, file.path));
  const auto add = [&](llvm::StringRef root, const SourceFile& file) {
    files->addFile(root + file.path, 0, llvm::MemoryBuffer::getMemBufferCopy(file.text, file.path));
  };
  add(kSources, request.source);
  for (const SourceFile& file : request.headers) {
    if (file.path != request.source.path) add(kSources, file);
  }
  for (const SourceFile& file : request.system_headers) add(kSystem, file);
  return files;
}

// The command line of Clang's own front end.
std::vector<std::string> arguments(const ParseRequest& request) {
  std::vector<std::string> words = {"-std=c++20",
                                    "-fsyntax-only",
                                    "-nostdsysteminc",
                                    "-nobuiltininc",
                                    "-I",
                                    kSources.str(),
                                    "-internal-isystem",
                                    kSystem.str(),
                                    "-internal-isystem",
                                    (kStandIns + "std").str(),
                                    "-ferror-limit",
                                    "100",
                                    "-fcxx-exceptions",
                                    "-fexceptions",
                                    "-fparse-all-comments",
                                    "-fno-spell-checking",
                                    "-disable-pragma-debug-crash",
                                    "-fgnuc-version=12.0.0"};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (request.host_library) add({"-internal-isystem", (kStandIns + "host").str()});
  if (request.dialect == Dialect::cuda) {
    // Clang 19 does not know GPUs newer than Hopper; what it checks does not depend on them.
    const std::string known = fmt::format("sm_{}", std::min(request.capability, 90));
    add({"-x", "cuda", "-triple", "nvptx64-nvidia-cuda", "-aux-triple", "x86_64-unknown-linux-gnu",
         "-fcuda-is-device", "-target-cpu", known, "-target-feature", "+ptx80", "-U__CUDA_ARCH__",
         fmt::format("-D__CUDA_ARCH__={}0", request.capability), "-include", (kStandIns + "cuda.h").str()});
  } else {
    add({"-x", "c++", "-triple", "x86_64-unknown-linux-gnu", "-target-cpu", request.processor});
    if (request.refuses_unused) add({"-fopenmp"});  // whose pragmas use variables too
  }
  for (const auto& [name, value] : request.macros) words.push_back(fmt::format("-D{}={}", name, value));
  words.push_back(kSources.str() + request.source.path);
  return words;
}

void refuse_unused(clang::DiagnosticsEngine& diagnostics) {
  for (const char* kind :
       {"unused-parameter", "unused-variable", "unused-but-set-variable", "unused-function",
        "unused-private-field", "unused-local-typedef", "unused-lambda-capture"})
    diagnostics.setSeverityForGroup(clang::diag::Flavor::WarningOrError, kind, clang::diag::Severity::Error);
}

}  // namespace

std::unique_ptr<Ast> Ast::parse(const ParseRequest& request,
                                const std::function<void(clang::Preprocessor&)>& watch) {
  std::unique_ptr<Ast> ast(new Ast);
  clang::CompilerInstance& compiler = ast->compiler_;
  compiler.createDiagnostics(new Collector(ast->problems_));
  if (request.refuses_unused) refuse_unused(compiler.getDiagnostics());

  std::vector<const char*> words;
  const std::vector<std::string> all = arguments(request);
  for (const std::string& word : all) words.push_back(word.c_str());
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, words, compiler.getDiagnostics())) {
    throw std::logic_error("Clang refuses its command line: " + ast->problems_.at(0).message);
  }
  compiler.setInvocation(std::move(invocation));
  compiler.createFileManager(virtual_files(request));
  if (!compiler.createTarget())
    throw std::logic_error("Clang refuses its target: " + ast->problems_.at(0).message);
  compiler.createSourceManager(compiler.getFileManager());
  if (!compiler.InitializeSourceManager(compiler.getFrontendOpts().Inputs[0])) {
    throw std::logic_error("Clang does not find " + request.source.path);
  }
  compiler.createPreprocessor(clang::TU_Complete);
  if (watch) watch(compiler.getPreprocessor());
  compiler.createASTContext();
  clang::Preprocessor& preprocessor = compiler.getPreprocessor();
  preprocessor.getBuiltinInfo().initializeBuiltins(preprocessor.getIdentifierTable(), compiler.getLangOpts());
  compiler.setASTConsumer(std::make_unique<clang::ASTConsumer>());
  compiler.createSema(clang::TU_Complete, nullptr);
  compiler.getDiagnosticClient().BeginSourceFile(compiler.getLangOpts(), &preprocessor);
  clang::ParseAST(compiler.getSema());
  compiler.getDiagnosticClient().EndSourceFile();
  return ast;
}

Ast::~Ast() {
  // Before the preprocessor that it points to.
  compiler_.setSema(nullptr);
}

std::string Ast::path_of(clang::SourceLocation location) const {
  const clang::SourceManager& sources = compiler_.getSourceManager();
  return without_root(sources.getFilename(sources.getExpansionLoc(location)));
}

Problem Ast::problem_at(clang::SourceLocation location, std::string message) const {
  const clang::SourceManager& sources = compiler_.getSourceManager();
  const clang::PresumedLoc place = sources.getPresumedLoc(sources.getExpansionLoc(location));
  return {path_of(location), static_cast<int>(place.getLine()), static_cast<int>(place.getColumn()),
          std::move(message)};
}

ParseResult parse(const ParseRequest& request) {
  const std::unique_ptr<Ast> ast = Ast::parse(request);
  ParseResult result{ast->problems(), {}};
  if (request.refuses_unused && result.problems.empty()) {
    result.problems = needless_parts(*ast);
    for (Problem& problem : undone_parts(*ast)) result.problems.push_back(std::move(problem));
  }
  const clang::SourceManager& sources = ast->sources();
  for (auto file = sources.fileinfo_begin(); file != sources.fileinfo_end(); ++file)
    result.files.push_back(without_root(file->first.getName()));
  std::sort(result.files.begin(), result.files.end());
  return result;
}

std::vector<Problem> problems_of(const ParseRequest& request) {
  return parse(request).problems;
}

}  // namespace hydrac::specialize
