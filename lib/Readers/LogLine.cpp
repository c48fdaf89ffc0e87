//===- LogLine.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogLine.h"
#include "Readers/LogPrefix.h"
#include "Readers/TimeStamp.h"
#include "Support/FindText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit {

/// Drops what a terminal would not show: colours, cursor movements, titles.
static void removeEscapes(StringRef Text, std::string &Out) {
  for (size_t I = 0; I < Text.size(); ++I) {
    if (Text[I] == '\b' || Text[I] == '\0')
      continue;
    if (Text[I] != '\x1b') {
      Out += Text[I];
      continue;
    }
    char Kind = I + 1 < Text.size() ? Text[I + 1] : 0;
    if (Kind == '[') { // to its final byte
      for (I += 2; I < Text.size() && (Text[I] < '@' || Text[I] > '~'); ++I)
        ;
    } else if (Kind == ']') { // to BEL or ESC
      for (I += 2; I < Text.size() && Text[I] != '\a' && Text[I] != '\x1b'; ++I)
        ;
      I += I < Text.size() && Text[I] == '\x1b';
    } else {
      ++I;
    }
  }
}

/// Where a progress bar ends that something else was printed behind, without
/// a line end between them; 0 when there is none.
static size_t endOfProgressBar(StringRef Text) {
  size_t Bar = findText(Text, "%|");
  if (Bar == StringRef::npos)
    return 0;
  size_t Rate = Text.find("it/s", Bar);
  if (Rate == StringRef::npos)
    Rate = Text.find("s/it", Bar);
  if (Rate == StringRef::npos)
    return 0;
  size_t Close = Text.find(']', Rate);
  return Close == StringRef::npos ? 0 : Close + 1;
}

/// Whether all of \p Text is printable ASCII.
static bool isPrintableAscii(StringRef Text) {
  bool Plain = true;
  for (unsigned char C : Text) // without a way out, so that it is vectorised
    Plain &= static_cast<unsigned char>(C - 0x20) < 0x5f;
  return Plain;
}

StringRef LogLineParser::clean(StringRef Raw) {
  if (isPrintableAscii(Raw) && !containsText(Raw, "%|")) {
    while (!Raw.empty() && Raw.back() == ' ')
      Raw = Raw.drop_back();
    return Raw;
  }
  // A progress bar is rewritten after each \r; only what it last showed stays.
  Raw = Raw.rtrim('\r');
  size_t Return = Raw.rfind('\r');
  while (Return != StringRef::npos && Raw.drop_front(Return).trim().empty()) {
    Raw = Raw.take_front(Return);
    Return = Raw.rfind('\r');
  }
  if (Return != StringRef::npos)
    Raw = Raw.drop_front(Return + 1);
  bool Plain = true, Ascii = true;
  for (unsigned char C : Raw) {
    Plain &= C != 0x1b && C != '\b' && C != 0;
    Ascii &= C < 0x80;
  }
  StringRef Text = Raw;
  if (!Plain) {
    Buffer.clear();
    removeEscapes(Raw, Buffer);
    Text = Buffer;
  }
  if (!Ascii && !json::isUTF8(Text)) {
    Buffer = json::fixUTF8(Text);
    Text = Buffer;
  }
  if (size_t End = endOfProgressBar(Text))
    if (!Text.drop_front(End).trim().empty())
      Text = Text.drop_front(End).ltrim();
  return Text.rtrim();
}

/// A level that stands inside the line: "foo.py:41: UserWarning: ...".
static StringRef innerLevel(const LogLine &L) {
  if (containsText(L.Text, "Warning: "))
    return "warning";
  if (containsText(L.Text, "NCCL WARN"))
    return "warning";
  if (L.Body.starts_with_insensitive("error:") ||
      L.Body.starts_with("Traceback ("))
    return "error";
  if (L.Body.starts_with_insensitive("warning:"))
    return "warning";
  StringRef Rest = L.Text.take_front(160);
  size_t At = findText(Rest, "level=");
  if (At == StringRef::npos)
    return "";
  return levelOf(StringRef(
      Rest.drop_front(At + 6).ltrim('"').take_while(isAlpha).upper()));
}

LogLine LogLineParser::parse(StringRef Raw, int64_t Number) {
  LogLine L;
  L.Number = Number;
  L.Text = clean(Raw);
  L.Unstamped = L.Text;
  readPrefixes(L);
  if (!L.Rank)
    L.Rank = rankIn(L.Text);
  // host:534:1763 [3] NCCL INFO ...
  size_t Nccl = findText(L.Text, "] NCCL ");
  if (!L.Rank && Nccl != StringRef::npos) {
    size_t Open = L.Text.take_front(Nccl).rfind('[');
    int64_t Rank = 0;
    if (Open != StringRef::npos &&
        !L.Text.slice(Open + 1, Nccl).getAsInteger(10, Rank))
      L.Rank = Rank;
  }
  if (L.Level.empty())
    L.Level = innerLevel(L);
  return L;
}

LogLine LogLineParser::again(StringRef Raw, int64_t Number, StringRef Level,
                             bool Stamped) {
  LogLine L;
  L.Number = Number;
  L.Text = L.Unstamped = L.Body = clean(Raw);
  L.Level = Level;
  if (Stamped)
    if (std::optional<TimeStamp> Stamp = leadingTimeStamp(L.Text))
      L.WallTime = Stamp->Unix;
  return L;
}

} // namespace culprit
