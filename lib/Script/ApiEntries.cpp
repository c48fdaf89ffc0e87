//===- ApiEntries.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ApiEntries.h"

using namespace llvm;

namespace culprit {

static constexpr ApiEntry Entries[] = {
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE)            \
  {ApiKind::Function, #RECEIVER, NAME, PARAMS, RESULT, DOC, EXAMPLE},
#define FIELD(RECEIVER, NAME, TYPE, DOC)                                       \
  {ApiKind::Field, #RECEIVER, NAME, "", TYPE, DOC, ""},
#define STANDARD(MODULE, NAME, DOC)                                            \
  {ApiKind::Standard, #MODULE, NAME, "", "", DOC, ""},
#include "Script/Api.def"
};

static constexpr ApiSection Sections[] = {
    {"case", "The case", "case.", "culprit.Case",
     "What `run` is given: the tables below, and"},
    {"table", "Tables", "table:", "culprit.Table",
     "A table never changes: a verb makes another one, and copies no data. "
     "Rows are numbered from 0. Every row knows the file it came from. "
     "`#t` is the number of rows. `start` and `stop` name the columns of an "
     "interval and may be left out where they are called so."},
    {"row", "Rows", "row.", "culprit.Row", ""},
    {"column", "Columns", "column:", "culprit.Column",
     "Values that are missing stay missing, and statistics leave them out, as "
     "they do NaN and infinities."},
    {"global", "Functions", "", "", ""},
    {"units", "Units", "units.", "culprit.Units",
     "Factors, and figures as people read them."},
    {"string", "Text", "string.", "string",
     "Methods of every text too: `name:sub(1, 60)`. There are no Lua "
     "patterns: they can take exponential time inside one call, where no "
     "limit reaches."},
    {"table_library", "Lua's own: table", "table.", "", ""},
    {"math", "Lua's own: math", "math.", "", ""}};

ArrayRef<ApiEntry> apiEntries() { return Entries; }

StringRef resultOf(const ApiEntry &E) {
  static constexpr struct {
    StringRef Receiver, Name, Text;
  } Results[] = {
#define RESULT(RECEIVER, NAME, TEXT) {#RECEIVER, NAME, TEXT},
#include "Script/ApiResults.def"
  };
  for (const auto &R : Results)
    if (R.Receiver == E.Receiver && R.Name == E.Name)
      return R.Text;
  return "";
}

static constexpr ApiTopic Topics[] = {
#define TOPIC(PURPOSE, NAMES) {PURPOSE, NAMES},
#include "Script/ApiTopics.def"
};

ArrayRef<ApiTopic> apiTopics() { return Topics; }

SmallVector<StringRef, 16> ApiTopic::names() const {
  SmallVector<StringRef, 16> Out;
  for (StringRef Rest = Names; !Rest.empty();) {
    // A name ends where the next receiver begins.
    size_t Next = Rest.find(':', Rest.find(':') + 1);
    size_t End = Next == StringRef::npos ? Rest.size()
                                         : Rest.take_front(Next).rfind(' ');
    Out.push_back(Rest.take_front(End));
    Rest = Rest.drop_front(End).ltrim();
  }
  return Out;
}

ArrayRef<ApiSection> apiSections() { return Sections; }

SmallVector<StringRef, 4> parameters(StringRef Params) {
  SmallVector<StringRef, 4> Out;
  int Depth = 0;
  size_t First = 0;
  for (size_t I = 0; I != Params.size(); ++I) {
    if (StringRef("<({").contains(Params[I]))
      ++Depth;
    else if (StringRef(">)}").contains(Params[I]))
      --Depth;
    else if (Params[I] == ',' && Depth == 0) {
      Out.push_back(Params.slice(First, I).trim());
      First = I + 1;
    }
  }
  if (!Params.empty())
    Out.push_back(Params.substr(First).trim());
  return Out;
}

std::string parameterNames(StringRef Params, StringRef Optional) {
  std::string Out;
  for (StringRef Param : parameters(Params)) {
    StringRef Name = Param.split(':').first;
    bool Omissible = Name.consume_back("?");
    Out += (Out.empty() ? "" : ", ") + Name.str();
    if (Omissible)
      Out += Optional;
  }
  return Out;
}

} // namespace culprit
