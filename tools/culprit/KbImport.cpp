//===- KbImport.cpp - culprit kb import -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "KB/Import.h"
#include "KB/Store.h"
#include "KbVerbs.h"
#include "Options.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace culprit {

/// Whether the first sign of \p Text begins JSON.
static bool looksLikeJson(StringRef Text) {
  Text.consume_front("\xEF\xBB\xBF");
  Text = Text.ltrim();
  return Text.starts_with("{") ||
         (Text.starts_with("[") &&
          (Text.drop_front().ltrim().starts_with("{") ||
           Text.drop_front().ltrim().starts_with("]")));
}

int kbImport(ArrayRef<std::string> Paths) {
  if (Error E = checkFormat("import", {KbFormat::Text, KbFormat::Markdown}))
    return report(std::move(E));
  if (Paths.empty())
    return report(failure("kb import: nothing to import",
                          "name a JSON export of issues, or a folder of "
                          "post-mortems in markdown"));
  // A file, or - for standard input; of a folder the markdown files.
  std::vector<std::string> Files;
  for (const std::string &Path : Paths) {
    if (!sys::fs::is_directory(Path)) {
      Files.push_back(Path);
      continue;
    }
    Expected<std::vector<std::string>> Inside = expandLogs(Path);
    if (!Inside)
      return report(Inside.takeError());
    append_range(Files, *Inside);
  }
  std::vector<Entry> Drafts;
  for (const std::string &File : Files) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer =
        MemoryBuffer::getFileOrSTDIN(File);
    if (!Buffer)
      return report(failure(File + ": " + Buffer.getError().message()));
    StringRef Text = (*Buffer)->getBuffer();
    Imported One;
    if (Text.take_front(4096).contains('\0')) {
      report({{Severity::Warning, File + ": holds NUL bytes, skipped",
               "a post-mortem is markdown in UTF-8"}});
      continue;
    }
    if (looksLikeJson(Text) || StringRef(File).ends_with(".json")) {
      Expected<Imported> Issues = importIssues(Text, File);
      if (!Issues)
        return report(Issues.takeError());
      One = std::move(*Issues);
    } else {
      One = importPostMortem(Text, File);
    }
    report(One.Remarks);
    append_range(Drafts, One.Entries);
  }
  if (Drafts.empty())
    return report(failure("kb import: nothing became a draft"));
  const std::string &Out = kbOptions().Output;
  if (isIssuesLog(Out))
    return report(failure(Out + ": there are entries in it, and it was left "
                                "as it is",
                          "name a new file: somebody may have mended them"));
  int Exit = writeResult(draftLog(Drafts));
  report({{Severity::Note,
           (Twine(Drafts.size()) + (Drafts.size() == 1 ? " draft" : " drafts"))
               .str(),
           "read each, mend it and write its status; 'culprit kb check' names "
           "what is left"}});
  return Exit;
}

} // namespace culprit
