//===- Configs.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Configs.h"
#include "Compare/MarkdownCell.h"
#include "Support/Error.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// So many symptoms are named beside a change.
static constexpr size_t MostCauses = 4;

StringRef ConfigComparison::attribution() const {
  return Things == 0   ? "same"
         : Things == 1 ? "attributable"
                       : "not-attributable";
}

static bool matters(const SettingChange &C) {
  return C.effect() == KeyEffect::Results;
}

static std::string conclusion(const ConfigComparison &C) {
  if (C.Things == 0)
    return C.Changes.empty()
               ? "no setting differs in meaning"
               : "no setting that can change results differs";
  const SettingChange &First = C.Changes.front();
  const size_t Upgraded = count_if(C.Changes, [](const SettingChange &Each) {
    return Each.Package && matters(Each);
  });
  if (C.Things == 1 && Upgraded > 1)
    return formatv("{0} packages that compute changed and nothing else that "
                   "can change results: an effect can be attributed to them "
                   "together; to find which, take back one at a time",
                   Upgraded);
  if (C.Things == 1)
    return "one change that can change results: an effect can be attributed "
           "to it";
  return formatv("{0} semantic changes at once: an effect cannot be attributed "
                 "to one of them; change one at a time, {1} first",
                 C.Things, First.Key);
}

static ConfigComparison compare(const Settings &A, const Settings &B,
                                const Settings &PackagesA,
                                const Settings &PackagesB) {
  ConfigComparison Out;
  if (!A.empty() && !B.empty())
    Out.Changes = compareSettings(A, B);
  if (!PackagesA.empty() && !PackagesB.empty())
    for (SettingChange &C : comparePackages(PackagesA, PackagesB))
      Out.Changes.push_back(std::move(C));
  stable_sort(Out.Changes, [](const SettingChange &X, const SettingChange &Y) {
    return X.effect() < Y.effect();
  });
  Out.Things = countThings(Out.Changes);
  Out.Usual = confoundersOf(A, B, PackagesA, PackagesB, Out.Changes);
  Out.Says = conclusion(Out);
  return Out;
}

/// What the requests of a side ask for, beside its files of settings: a log of
/// requests is how a client was set. A side may have several values of each.
static void addRequestSettings(const Case &C, Settings &Into) {
  static constexpr StringRef Columns[] = {"model",      "temperature",
                                          "top_p",      "max_tokens",
                                          "seed",       "endpoint"};
  static constexpr size_t MostValues = 8;
  const Table &T = C.table(TableId::requests);
  for (const StringRef Column : Columns) {
    const std::string Key = Column.str();
    const ColumnView *Found = T.find(Column);
    if (!Found || Into.count(Key))
      continue;
    const ColumnView &V = *Found;
    SettingValues Values;
    for (size_t I = 0; I != T.rows() && Values.Values.size() <= MostValues; ++I)
      if (!V.isNull(I))
        Values.Values.insert(
            V.type() == ColumnType::String
                ? T.pool()->text(V.getString(I)).str()
                : formatNumber(V.type() == ColumnType::Int
                                   ? double(V.getInt(I))
                                   : V.getDouble(I), 9));
    // A seed a request each is no setting.
    if (!Values.Values.empty() && Values.Values.size() <= MostValues)
      Into[Key] = std::move(Values);
  }
}

Expected<ConfigComparison> compareConfigs(const Case &A, StringRef APath,
                                          const Case &B, StringRef BPath) {
  const auto Side = [](const Case &C, TableId Id) {
    return settingsOf(C.table(Id)).value_or(Settings());
  };
  Settings OfA = Side(A, TableId::config), OfB = Side(B, TableId::config);
  if (A.has(TableId::requests) && B.has(TableId::requests)) {
    addRequestSettings(A, OfA);
    addRequestSettings(B, OfB);
  }
  const bool Config = !OfA.empty() && !OfB.empty();
  const bool Packages = A.has(TableId::packages) && B.has(TableId::packages);
  if (!Config && !Packages)
    return failure("compare: the sides have no settings or packages in common",
                   "give two files of settings, two folders that hold some, or "
                   "two lists of packages");
  ConfigComparison Out = compare(
      OfA, OfB, Side(A, TableId::packages), Side(B, TableId::packages));
  Out.A = APath.str();
  Out.B = BPath.str();
  return Out;
}

/// The rows of \p T by run, runs in order of their names.
static std::map<std::string, Settings> settingsByRun(const Table &T,
                                                     unsigned Run) {
  std::map<std::string, std::vector<uint32_t>> Rows;
  const ColumnView &V = T.columns()[Run];
  for (size_t I = 0; I != T.rows(); ++I)
    if (!V.isNull(I))
      Rows[T.pool()->text(V.getString(I)).str()].push_back(uint32_t(I));
  std::map<std::string, Settings> Out;
  for (auto &[Name, Of] : Rows)
    Out[Name] =
        settingsOf(T.take(std::move(Of))).value_or(Settings());
  return Out;
}

/// Whether \p Run is what one begins with: before, old, good.
static bool isEarlier(StringRef Run) {
  static constexpr StringRef Words[] = {"before", "old", "good", "baseline",
                                        "base", "a", "train", "reference"};
  return is_contained(Words, sys::path::filename(Run));
}

std::optional<ConfigComparison> compareSidesOf(const Case &C) {
  const auto Config = settingsByRun(C.table(TableId::config), config::run);
  const auto Packages =
      settingsByRun(C.table(TableId::packages), packages::run);
  std::set<std::string> Runs;
  for (const auto *By : {&Config, &Packages})
    for (const auto &[Name, S] : *By)
      Runs.insert(Name);
  if (Runs.size() != 2)
    return std::nullopt;
  std::string A = *Runs.begin(), B = *Runs.rbegin();
  if (isEarlier(B) && !isEarlier(A))
    std::swap(A, B);
  const auto Of = [](const auto &By, const std::string &Name) {
    auto It = By.find(Name);
    return It == By.end() ? Settings() : It->second;
  };
  ConfigComparison Out =
      compare(Of(Config, A), Of(Config, B), Of(Packages, A), Of(Packages, B));
  Out.A = sys::path::filename(A).str();
  Out.B = sys::path::filename(B).str();
  if (Out.A == Out.B) {
    Out.A = A;
    Out.B = B;
  }
  return Out;
}

/// "can cause a, b" of a change that matters; why it does not, of another.
static std::string remarkOf(const SettingChange &C) {
  if (!C.Compensated.empty())
    return C.Compensated;
  if (C.Filled)
    return "auto is filled in from other settings: whether it differs stands "
           "there, or in the log of the program";
  if (!C.Facts.Row)
    return C.Package ? "" : "unknown key: what it does is not known here";
  SmallVector<StringRef, 8> Causes;
  C.Facts.Row->Causes.split(Causes, ' ', -1, false);
  std::string Out;
  for (StringRef Each : ArrayRef(Causes).take_front(MostCauses))
    Out += (Out.empty() ? "can cause " : ", ") + Each.str();
  // Nobody wrote it down, and no default is known.
  if (matters(C) && ((C.Before.empty() && C.DefaultBefore.empty()) ||
                     (C.After.empty() && C.DefaultAfter.empty())))
    Out += std::string(Out.empty() ? "" : "; ") +
           "on one side the program's default counts, which is not known here";
  return Out;
}

/// Which of the usual confounders differ, where any is recorded.
static std::string confoundersOf(const ConfigComparison &C) {
  const bool Any = !C.Usual.Differ.empty() || !C.Usual.Equal.empty();
  return C.Things && Any ? "usual confounders: " + C.Usual.text() : "";
}

/// The changes of \p C that matter, group by group in order of appearance.
static std::vector<std::pair<std::string, std::vector<const SettingChange *>>>
groupsOf(const ConfigComparison &C) {
  std::vector<std::pair<std::string, std::vector<const SettingChange *>>> Out;
  for (const SettingChange &Each : C.Changes) {
    if (Each.effect() == KeyEffect::None)
      continue;
    std::string Group = groupOfKind(Each.Facts.Kind).str();
    if (!matters(Each))
      Group = "time and memory alone";
    auto It = find_if(Out, [&](const auto &G) { return G.first == Group; });
    if (It == Out.end()) {
      Out.push_back({Group, {}});
      It = std::prev(Out.end());
    }
    It->second.push_back(&Each);
  }
  return Out;
}

/// "bookkeeping, without influence: run_name, output_dir".
static std::string bookkeepingOf(const ConfigComparison &C) {
  std::string Out;
  size_t Count = 0;
  for (const SettingChange &Each : C.Changes)
    if (Each.effect() == KeyEffect::None && Each.Facts.Kind != "outcome" &&
        ++Count <= 8)
      Out += (Out.empty() ? "" : ", ") + Each.Key;
  if (Count == 0)
    return "";
  if (Count > 8)
    Out += formatv(" and {0} more", Count - 8);
  return "without influence on results: " + Out;
}

/// "outcomes beside the settings: results.arc_easy.acc 0.62 -> 0.55".
static std::string outcomesOf(const ConfigComparison &C) {
  std::string Out;
  size_t Count = 0;
  for (const SettingChange &Each : C.Changes)
    if (Each.Facts.Kind == "outcome" &&
        StringRef(Each.Key).starts_with("results.") && ++Count <= 8)
      Out += (Out.empty() ? "outcomes beside the settings: " : ", ") +
             Each.text();
  if (Count > 8)
    Out += formatv(" and {0} more", Count - 8);
  return Out;
}

void printConfigs(raw_ostream &OS, const ConfigComparison &C, unsigned Top) {
  OS << C.B << " against " << C.A << ": " << C.Says << '\n';
  for (const auto &[Group, Changes] : groupsOf(C)) {
    OS << "\n  " << Group << '\n';
    for (const SettingChange *Each : ArrayRef(Changes).take_front(Top)) {
      OS << "    " << Each->text() << '\n';
      if (std::string Remark = remarkOf(*Each); !Remark.empty())
        OS << "      " << Remark << '\n';
    }
    if (Changes.size() > Top)
      OS << "    " << Changes.size() - Top << " more; --top shows more\n";
  }
  const std::string Rest = bookkeepingOf(C), Usual = confoundersOf(C),
                    Outcomes = outcomesOf(C);
  if (!Rest.empty() || !Usual.empty() || !Outcomes.empty())
    OS << '\n';
  if (!Outcomes.empty())
    OS << Outcomes << '\n';
  if (!Rest.empty())
    OS << Rest << '\n';
  if (!Usual.empty())
    OS << Usual << '\n';
}

void printConfigsMarkdown(raw_ostream &OS, const ConfigComparison &C,
                          unsigned Top) {
  OS << "**" << markdownCell(C.B + " against " + C.A + ": " + C.Says)
     << "**\n";
  for (const auto &[Group, Changes] : groupsOf(C)) {
    OS << "\n| " << Group << " | before | after | |\n|---|---|---|---|\n";
    for (const SettingChange *Each : ArrayRef(Changes).take_front(Top))
      OS << "| " << markdownCell(Each->Key) << " | "
         << markdownCell(Each->Before.empty() ? "-"
                                              : shortened(Each->Before, 60))
         << " | "
         << markdownCell(Each->After.empty() ? "-"
                                             : shortened(Each->After, 60))
         << " | " << markdownCell(remarkOf(*Each)) << " |\n";
  }
  OS << '\n';
  if (std::string Outcomes = outcomesOf(C); !Outcomes.empty())
    OS << "- " << markdownCell(Outcomes) << '\n';
  if (std::string Rest = bookkeepingOf(C); !Rest.empty())
    OS << "- " << markdownCell(Rest) << '\n';
  if (std::string Usual = confoundersOf(C); !Usual.empty())
    OS << "- " << markdownCell(Usual) << '\n';
}

static json::Array textsOf(ArrayRef<std::string> List) {
  json::Array Out;
  for (const std::string &Each : List)
    Out.push_back(jsonText(Each));
  return Out;
}

json::Value configsJson(const ConfigComparison &C) {
  const auto OrNull = [](const std::string &Text) {
    return Text.empty() ? json::Value(nullptr) : jsonText(Text);
  };
  json::Array Changes;
  for (const SettingChange &Each : C.Changes) {
    json::Array Causes;
    if (Each.Facts.Row) {
      SmallVector<StringRef, 8> List;
      Each.Facts.Row->Causes.split(List, ' ', -1, false);
      for (StringRef Cause : List)
        Causes.push_back(Cause);
    }
    Changes.push_back(json::Object{
        {"key", jsonText(Each.Key)},
        {"other_key", OrNull(Each.OtherKey)},
        {"group", groupOfKind(Each.Facts.Kind)},
        {"kind", Each.Facts.Kind},
        {"before", OrNull(Each.Before)},
        {"after", OrNull(Each.After)},
        {"default_before", OrNull(Each.DefaultBefore)},
        {"default_after", OrNull(Each.DefaultAfter)},
        {"effect", toString(Each.effect())},
        {"known", Each.Facts.Row != nullptr || Each.Package},
        {"why", OrNull(Each.Compensated)},
        {"can_cause", std::move(Causes)}});
  }
  return json::Object{
      {"schema", 1},
      {"kind", "config"},
      {"verdict", toString(C.verdict())},
      {"attribution", C.attribution()},
      {"a", jsonText(C.A)},
      {"b", jsonText(C.B)},
      {"things", int64_t(C.Things)},
      {"says", jsonText(C.Says)},
      {"changes", std::move(Changes)},
      {"confounders",
       json::Object{{"differ", textsOf(C.Usual.Differ)},
                    {"equal", textsOf(C.Usual.Equal)},
                    {"not_recorded", textsOf(C.Usual.Unknown)}}}};
}

} // namespace culprit
