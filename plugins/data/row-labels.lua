--- ## What it detects
--- Labels of whole rows whose inputs fall into groups that lie apart: a row among the neighbours of a group that has
--- another label than they, of some group, again and again and at no border; labels that have nothing to do with
--- groups that are as many as they; and a last class of the table that is several groups, each as large as any other
--- class, where every other class is one.
---
--- ## Why it matters
--- What a model is told of a row is seldom looked at beside the row. A share of wrong classes raises no error and puts
--- a floor under the loss; classes that a table has no rows for, cut to its last one, make that one the most frequent
--- and teach it to be anything.
---
--- ## How to confirm
--- Look at ten rows of one class side by side; of the last class as many as it has groups.
---
--- ## Known false positives
--- Groups are those of the nearest neighbours (five a row, greedy modularity), and count only where of three neighbours
--- nearly none is of another group, and nothing lies between two groups: classes that overlap, images whose pixels tell
--- nothing, and numbers of few columns have none. Where classes have several kinds there are more groups than labels,
--- and nothing is said of wrong ones; nor where rows of another label lie together, at a border or off the middle, as
--- rare kinds do, where most have one label (rows that are told no class), or one label is that of one group (two names
--- of a thing). Labels that come from more than the one input (a second tensor, a graph, a task) are left out, but for
--- noise and times of a diffusion; so are mixed images, and a config that names noise of labels. Labels of something
--- else than the groups show where a group's rows of one label are nearer to each other, or are told right more often
--- than chance. An answer that is random by nature, as often wrong for each class, is the same as a wrong label. A
--- class of all that is left over (other, unknown), with kinds as frequent as classes and the last number, looks like
--- one that classes were cut to, unless the config names it, or names each class: then the last is one of its own.
---
--- ## References
--- https://doi.org/10.1103/PhysRevE.70.066111 (greedy modularity). A label that is wrong whatever the row is has wrong
--- neighbours as often as any row has, and is as often of each other class; where it is not, classes touch.

local kind_names = require("kind-names")
local labelled = require("labelled-rows")
local row_groups = require("row-groups")

local LEAST = 5 -- rows of a class that counts

---@class row_labels.Sight  What is seen of the labels of one name.
---@field name string
---@field rows labelled.Found
---@field groups row_groups.Found
---@field sizes table<integer, integer>  rows of each label
---@field kinds integer                  of labels
---@field last integer                   the largest label
---@field apart boolean                  whether groups are as many as labels, with nothing between them
---@field text string                    "80 rows of batch.x"

--- The setting by which labels are not those of the rows.
local function changed_labels(case)
  return case.config:where("match(key, '*mixup*|*cutmix*|*label_noise*|*noisy_label*|*noise_rate|"
    .. "*symmetric_noise*|*random_label*|*shuffle_label*|*permute_label*') and (number > 0 or number is null and "
    .. "value not in ('false', 'False', 'none', 'None', 'null', ''))"):first()
end

--- Nil where there are too few rows, or labels are no classes.
---@return row_labels.Sight?
local function sight_of(case, name, run)
  local seen = labelled.of(case, name, run)
  if not seen then return nil end
  local count, sizes, kinds, last, rare = #seen.rows, {}, 0, -1, false
  for _, row in ipairs(seen.rows) do sizes[row.label] = (sizes[row.label] or 0) + 1 end
  for label, size in pairs(sizes) do
    kinds, last = kinds + 1, math.max(last, label)
    rare = rare or size < LEAST
  end
  if count < case.options.rows or kinds < 3 or kinds > count / 8 then return nil end
  local groups = row_groups.of(seen.rows)
  return {
    name = name, rows = seen, groups = groups, sizes = sizes, kinds = kinds, last = last,
    apart = groups.closed >= case.options.closed and #groups.list == kinds and not rare
      and row_groups.gaps(groups, groups.by_id),
    text = ("%d rows of %s"):format(count, seen.input.name),
  }
end

--- Whether each group has a label of its own.
local function told_by_groups(sight)
  local met, own = {}, 0
  for _, group in ipairs(sight.groups.list) do
    if not met[group.label] then met[group.label], own = true, own + 1 end
  end
  return own == sight.kinds
end

--- The rows that have another label than their group: a list of numbers; and how often the commonest of these labels is
--- there, the commonest pair of one and the group's, and how many labels there are.
local function wrong_rows(groups)
  local wrong, labels, couples, kinds, of_label, of_couple = {}, {}, {}, 0, 0, 0
  for i, row in ipairs(groups.rows) do
    local label = groups.by_id[groups.ids[i]].label
    if row.label ~= label then
      wrong[#wrong + 1] = i
      local couple = label .. " " .. row.label
      if not labels[row.label] then kinds = kinds + 1 end
      labels[row.label], couples[couple] = (labels[row.label] or 0) + 1, (couples[couple] or 0) + 1
      of_label, of_couple = math.max(of_label, labels[row.label]), math.max(of_couple, couples[couple])
    end
  end
  return wrong, of_label, of_couple, kinds
end

--- How many of the three neighbours of each wrong row are wrong as well, and how many are of its group.
local function around(groups, wrong)
  local is_wrong, beside, inside = {}, 0, 0
  for _, i in ipairs(wrong) do is_wrong[i] = true end
  for _, i in ipairs(wrong) do
    for k = 1, 3 do
      local j = groups.near[i][k]
      if is_wrong[j] then beside = beside + 1 end
      if groups.ids[j] == groups.ids[i] then inside = inside + 1 end
    end
  end
  return beside, inside
end

--- How many rows have another label than their group; and whether labels are wrong wherever a row lies, and any.
---@param sight row_labels.Sight
local function strewn(sight)
  local wrong, of_label, of_couple, met = wrong_rows(sight.groups)
  local n, kinds = #wrong, sight.kinds
  if n < LEAST then return n, false end
  local beside, inside = around(sight.groups, wrong)
  -- Wrong rows lie within their group, by themselves, and have any label: each within four deviations of chance.
  local function above(count, of, chance) return count > of * chance + 4 * math.sqrt(of * chance * (1 - chance)) + 1 end
  local touch = inside < math.min(sight.groups.closed, 0.98) * 3 * n - 1
  local lump  = above(beside, 3 * n, n / #sight.groups.rows)
  local one   = above(of_couple, n, 1 / (kinds * (kinds - 1))) or above(of_label, n, 1 / kinds)
    or met < 3 or met < kinds / 2
  return n, not (touch or lump or one)
end

--- Whether labels and groups have nothing to do with each other, by chi-square: as near as chance brings them.
---@param sight row_labels.Sight
local function unrelated(sight)
  local chi, n = 0, #sight.groups.rows
  for _, group in ipairs(sight.groups.list) do
    for label, count in pairs(sight.sizes) do
      local expected = group.rows * count / n
      chi = chi + ((group.of[label] or 0) - expected) ^ 2 / expected
    end
  end
  local free = (#sight.groups.list - 1) * (sight.kinds - 1)
  return chi <= free + 1.64 * math.sqrt(2 * free)
end

--- Whether something is right about classes more often than chance is, or costs well below what knowing nothing does:
--- such can be told from what is given.
local function learned(case, kinds)
  local losses = case.scalars:where { name = { "loss", "val_loss" }, primary = true }:where("finite(value)")
    :sort("-step")
  if losses:count() > 0 and losses:slice(0, 10):median("value") < 0.8 * math.log(kinds) then return true end
  local shares = case.scalars:where("name in ('accuracy', 'val_accuracy') and finite(value)"):sort("-step")
  for row in shares:slice(0, 20):rows() do
    if row.value > 1.5 / kinds and (row.value <= 1 or row.value > 150 / kinds) then return true end
  end
  return false
end

--- How many rows of each batch have one key, key by key, in an order that the keys play no part in.
---@param rows labelled.Row[]
---@param key fun(i: integer, row: labelled.Row): integer
local function counts_by_batch(rows, batches, key)
  local by_key, lines = {}, {}
  for i, row in ipairs(rows) do
    local k = key(i, row)
    by_key[k] = by_key[k] or {}
    by_key[k][row.batch] = (by_key[k][row.batch] or 0) + 1
  end
  for _, counts in pairs(by_key) do
    local words = {}
    for b = 1, batches do words[b] = counts[b] or 0 end
    lines[#lines + 1] = table.concat(words, " ")
  end
  table.sort(lines)
  return table.concat(lines, ", ")
end

--- Whether each batch has as many rows of one group as of one label, label by label: rows that were mixed up.
---@param sight row_labels.Sight
local function mixed_up(sight)
  local rows, batches = sight.groups.rows, sight.rows.batches
  return counts_by_batch(rows, batches, function(_, row) return row.label end)
    == counts_by_batch(rows, batches, function(i) return sight.groups.ids[i] end)
end

--- Whether nearly all rows of a label are of one group.
local function is_one_group(sight, label)
  local of, most = {}, 0
  for i, row in ipairs(sight.groups.rows) do
    if row.label == label then
      local id = sight.groups.ids[i]
      of[id] = (of[id] or 0) + 1
      most = math.max(most, of[id])
    end
  end
  return most >= 0.9 * sight.sizes[label] or most >= sight.sizes[label] - 1
end

--- How many groups the last class is, where every other class is one, and the rows of another class in the mean; nil
--- where the last one is no several.
---@param sight row_labels.Sight
local function several(sight)
  local last, own, size, chosen = sight.last, 0, 0, {}
  for _, group in ipairs(sight.groups.list) do
    if group.of[last] == group.rows and group.rows >= LEAST and group.closed >= 0.9 then
      own, size, chosen[group.id] = own + 1, size + group.rows, true
    end
  end
  local others, rows, whole = 0, 0, 0
  for label, count in pairs(sight.sizes) do
    if label ~= last then
      others, rows = others + 1, rows + count
      if is_one_group(sight, label) then whole = whole + 1 end
    end
  end
  if others < 3 or own < 3 then return nil end
  local usual, each = rows / others, size / own
  local alike = each <= 3.5 * usual and usual <= 3.5 * each
  local frequent = sight.sizes[last] - usual >= 4 * math.sqrt(usual) and sight.sizes[last] >= 2 * usual
  if whole >= 0.75 * others and alike and frequent and row_groups.gaps(sight.groups, chosen) then return own, usual end
end

--- Reports single rows with a wrong label, and tells whether it did.
---@param sight row_labels.Sight
---@param looked table<string, boolean>  symptoms that could have been seen
local function judge_single(case, sight, looked)
  if not (sight.apart and told_by_groups(sight)) then return false end
  local opt, count = case.options, #sight.groups.rows
  local wrong, anywhere = strewn(sight)
  anywhere = anywhere and row_groups.nearer_within(sight.groups) < opt.within
  looked["labels-partly-wrong"] = wrong < math.max(LEAST, opt.wrong * count) or anywhere or nil
  if not anywhere or wrong < opt.wrong * count then return false end
  report {
    symptom  = "labels-partly-wrong",
    score    = 0.9,
    at       = { step = sight.rows.labels.step, name = sight.name },
    message  = ("%s lie in %d groups, each with a label of %s of its own, but for %d rows (%s) that lie among "
      .. "the others of a group and have any other label: no class ends in the midst of another"):format(sight.text,
      sight.kinds, sight.name, wrong, units.percent(wrong / count)),
    evidence = { sight.rows.labels, sight.rows.input },
  }
  return true
end

--- Reports labels that have nothing to do with the groups, and those that were mixed up among the rows of a batch;
--- neither where single rows are wrong.
---@param sight row_labels.Sight
---@param looked table<string, boolean>
local function judge_all(case, sight, looked, single)
  if not sight.apart or sight.kinds < 4 then return end
  local several_batches = sight.rows.whole and sight.rows.batches >= 2
  looked["labels-unrelated"], looked["labels-of-other-rows"] = true, several_batches or nil
  if single or not unrelated(sight) or learned(case, sight.kinds)
    or row_groups.nearer_within(sight.groups) >= case.options.within then
    return
  end
  local mixed = several_batches and mixed_up(sight)
  report {
    symptom  = mixed and "labels-of-other-rows" or "labels-unrelated",
    score    = mixed and 0.95 or 0.8,
    at       = { step = sight.rows.labels.step, name = sight.name },
    message  = ("%s lie in %d groups, and %s has as many labels, which have nothing to do with them%s"):format(
      sight.text, sight.kinds, sight.name, mixed and (": of each label each of %d batches has as many rows as of one "
      .. "group, but other ones"):format(sight.rows.batches) or ""),
    evidence = { sight.rows.labels, sight.rows.input },
  }
  looked[mixed and "labels-unrelated" or "labels-of-other-rows"] = nil
end

--- Reports a last class of the table that is several groups.
---@param sight row_labels.Sight
---@param looked table<string, boolean>
local function judge_last(case, sight, looked)
  local count = case.config:where("match(key, '*num_classes|*n_classes|*num_labels|classes|*.classes') and "
    .. "number == ?", sight.last + 1):first()
  local rest = case.config:where("match(value, '*other*|*unknown*|*background*|*misc*|*rest*') and "
    .. "match(key, '*class*|*label*')"):first()
  if not count or rest or kind_names.of(case, sight.last + 1) then return end
  local groups, usual = several(sight)
  looked["category-ids-clamped"] = groups ~= nil or sight.apart or nil
  if not groups then return end
  report {
    symptom  = "category-ids-clamped",
    score    = 0.85,
    at       = { step = sight.rows.labels.step, name = sight.name },
    message  = ("%d of %s have the last of %d classes, %d, and lie in %d groups or more; every other class has %.3g in "
      .. "the mean and is one group: classes beyond the last were made the last"):format(sight.sizes[sight.last],
      sight.text, sight.last + 1, sight.last, groups, usual),
    evidence = { sight.rows.labels, sight.rows.input, count },
  }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Classes of rows are wrong, unrelated, or the last one holds several",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows", "category-ids-clamped" },
  options  = {
    wrong  = { default = 0.03, doc = "Share of rows with another label than their group, worth reporting" },
    closed = { default = 0.97, doc = "Share of three neighbours that have to be of the same group" },
    within = { default = 2.0,  doc = "Deviations by which rows of one label may be nearer within a group" },
    rows   = { default = 64,   doc = "Rows below which nothing is said" },
  },

  run = function(case)
    local changed = changed_labels(case)
    if changed then return skip("labels of the rows as they are: the config has " .. changed.key) end
    local looked = {}
    for name, labels in case.tensors:where(labelled.NAMES):group("name") do
      local sight = sight_of(case, name, labels:first().run)
      if sight then
        judge_all(case, sight, looked, judge_single(case, sight, looked))
        judge_last(case, sight, looked)
      end
    end
    for _, symptom in ipairs({ "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows",
      "category-ids-clamped" }) do
      if not looked[symptom] then
        skip("labels of 64 rows or more, three classes at least, whose inputs lie in as many groups apart", symptom)
      end
    end
  end,
}
