//===- KinetoTraceEvent.h - One event of a trace as text --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Goes through a piece of the event list and cuts each event into the fields
/// of KinetoTraceFields.def.
///
/// A broken event costs itself alone. After one the cursor looks for
///
///   } , { "ph":         or another key that events begin with
///
/// which does not occur inside of strings, and goes on there. That also
/// survives an unescaped quote, after which inside and outside of strings
/// would be swapped up to the end of the file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEEVENT_H
#define CULPRIT_READERS_KINETOTRACEEVENT_H

#include "Readers/KinetoTraceLexer.h"

namespace culprit::kineto {

enum class Field : unsigned {
#define EVENT_FIELD(ID, KEY) ID,
#define ARG_FIELD(ID, KEY) ID,
#include "Readers/KinetoTraceFields.def"
  Count
};

inline constexpr unsigned NumFields = static_cast<unsigned>(Field::Count);
static_assert(NumFields <= 64, "Event keeps what is present in 64 bits");

/// The fields of one event, as slices of the chunk.
class Event {
public:
  void clear() { Present = 0; }
  void set(Field F, llvm::StringRef Text) {
    Texts[static_cast<unsigned>(F)] = Text;
    Present |= bit(F);
  }
  bool has(Field F) const { return Present & bit(F); }
  llvm::StringRef text(Field F) const {
    return has(F) ? Texts[static_cast<unsigned>(F)] : llvm::StringRef();
  }
  /// A whole number; none when absent or not one.
  std::optional<int64_t> number(Field F) const {
    return has(F) ? scaledDecimal(text(F), 0) : std::nullopt;
  }

private:
  static constexpr uint64_t bit(Field F) {
    return uint64_t(1) << static_cast<unsigned>(F);
  }
  uint64_t Present = 0;
  llvm::StringRef Texts[NumFields];
};

class EventCursor {
public:
  enum class Step {
    Parsed, ///< An event.
    Broken, ///< An event that is malformed; the cursor is behind it.
    Cut,    ///< The text ends inside of an event.
    Closed, ///< The list of events ends with its bracket.
    End     ///< The text ends between events.
  };

  /// \p Text must be followed by LexerPadding bytes that hold a quote.
  explicit EventCursor(llvm::StringRef Text)
      : L(Text.begin(), Text.end()), Begin(Text.begin()) {}

  Step next(Event &Out);

  /// Where the event of the last step began, in bytes from the start.
  size_t start() const { return Start; }
  /// Where the next step begins.
  size_t position() const { return L.Next - Begin; }
  /// The text of the event of the last step.
  llvm::StringRef text() const {
    return llvm::StringRef(Begin + Start, L.Next - Begin - Start);
  }

private:
  bool parse(Event &Out);
  bool parseArgs(Event &Out);
  Step recover();

  Lexer L;
  const char *Begin;
  size_t Start = 0;
};

/// The first position at or after \p From where an event surely begins: its
/// opening brace, after the closing brace of another and a comma. npos if
/// there is none.
size_t findEventStart(llvm::StringRef Text, size_t From);

/// The start of the last whole event of the padded \p Text that begins at or
/// after \p From and can be told from an object within an event; npos if
/// there is none.
size_t findLastEvent(llvm::StringRef Text, size_t From);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEEVENT_H
