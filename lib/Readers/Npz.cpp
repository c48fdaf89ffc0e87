//===- Npz.cpp --------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Npz.h"
#include "Readers/Npy.h"
#include "Readers/TensorRemarks.h"
#include "Readers/Zip.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

/// Unpacked bytes that one archive may take, so that a few kilobytes of
/// nested repetition cannot fill the memory.
static constexpr uint64_t MaxTotal = uint64_t(16) << 30;

Match NpzReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  // What has nothing to save, as an optimizer before its first step, leaves an
  // archive without members.
  if (Head.size() == 22 && Head.starts_with("PK\5\6") &&
      File.path().ends_with(".npz"))
    return Match::Certain;
  if (Head.size() < 30 || !Head.starts_with("PK\3\4"))
    return Match::No;
  size_t Length = support::endian::read16le(Head.data() + 26);
  return Head.substr(30, Length).ends_with(".npy") ? Match::Certain : Match::No;
}

Error NpzReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  StringRef Path = File.path();
  ZipDirectory Directory = listZip(*Contents);
  if (!Directory.Damage.empty()) {
    if (Directory.Members.empty())
      return failure(Path + ": " + Directory.Damage, CopyAgain);
    Into.warn(Path + ": " + Directory.Damage, CopyAgain);
  }

  const std::vector<bool> Overlaps = overlappingMembers(Directory.Members);
  constexpr unsigned Most = 5; // warnings about members
  unsigned Skipped = 0;
  const auto Skip = [&](Error E) {
    std::vector<Diagnostic> Why =
        toDiagnostics(std::move(E), Severity::Warning);
    if (++Skipped <= Most)
      append_range(Into.Remarks, Why);
  };
  uint64_t Total = 0;
  for (size_t I = 0; I != Directory.Members.size(); ++I) {
    const ZipMember &M = Directory.Members[I];
    StringRef Name = M.Name;
    if (Name.ends_with("/"))
      continue; // a folder
    std::string Where =
        (Path + ": '" + json::fixUTF8(Name.take_front(200)) + "'").str();
    if (!Name.consume_back(".npy") || Name.empty()) {
      Skip(failure(Where + ": is not a .npy member", "it was skipped"));
      continue;
    }
    if (Overlaps[I]) {
      Skip(failure(Where + ": shares bytes with another member",
                   "it was skipped; the archive is damaged or malicious"));
      continue;
    }
    if (M.compressed() && M.Size > MaxTotal - Total) {
      Skip(failure(Where + ": the archive would unpack to more than 16 GiB",
                   "it was skipped; split the archive"));
      continue;
    }
    std::shared_ptr<void> Owner;
    Expected<StringRef> Bytes = unpack(*Contents, M, Where, Owner);
    if (!Bytes) {
      Skip(Bytes.takeError());
      continue;
    }
    Expected<TensorView> View = readNpy(*Bytes, Where, Into);
    if (!View) {
      Skip(View.takeError());
      continue;
    }
    if (Owner) {
      Total += M.Size;
      Into.keepAlive(std::move(Owner));
    }
    TensorRecord Record;
    Record.Name = Name.str();
    Record.Data = std::move(*View);
    Record.Order = int64_t(I);
    Into.addTensor(std::move(Record));
  }
  if (Skipped > Most)
    Into.warn(formatv("{0}: {1} more members were skipped for such reasons",
                      Path, Skipped - Most));
  return Error::success();
}

} // namespace culprit
