---@meta culprit
-- Generated from lib/Script/Api.def; do not edit. Types for editors alone: culprit never loads this file.

---@class culprit.Detector
---@field api integer The version of the API the file was written for: 1.
---@field summary string One sentence that says what is wrong when it matches.
---@field needs table<string, table> Tables with the columns that `run` reads. A name with a value asks for rows: metric = "loss".
---@field symptoms string[] The symptoms it may report, of kb/symptoms.md.
---@field relies? string[] Aspects of a recording without which its reports are lowered or withheld: launches, kernels, host-times, whole-record, clocks.
---@field options? table<string, culprit.Option> Settings, with default and doc.
---@field run fun(case: culprit.Case)

---@class culprit.Option
---@field default boolean|number|string
---@field doc string

---@class culprit.Report
---@field symptom string One of the declared symptoms.
---@field score number 0 to 1: how sure.
---@field message string What was seen, with its figures.
---@field evidence culprit.Evidence|culprit.Evidence[] The rows behind the message.
---@field at? table<string, any> Where: step, layer, layers, rank, device, stream, token, name, ...
---@field severity? "info"|"warning"|"error" "error" when left out.
---@field recoverable? number ns that the window would be shorter without it.
---@field share? number Share of the window it takes, 0 to 1.

---@alias culprit.Evidence culprit.Row|culprit.Table|culprit.Column

---@class culprit.Input
---@field path string
---@field format string Empty: no reader knows the file.
---@field run string

---@class culprit.Case
---@field options table<string, any> The values of the detector's options.
---@field inputs culprit.Input[] The files of the case: path, format, run.
---@field epoch_ns integer? Unix time in ns of case time 0, where it is known.
---@field gpu_work culprit.Table One row is a kernel, copy or set on a device.
---@field host_calls culprit.Table One row is a CUDA (or HIP) runtime or driver call.
---@field syncs culprit.Table One row is a synchronisation recorded by the profiler.
---@field host_ops culprit.Table One row is a framework operator or Python frame.
---@field ranges culprit.Table One row is an NVTX range or user annotation, profiler steps included.
---@field memory_events culprit.Table One row is an allocation or free on a device.
---@field counters culprit.Table One row is a sample of a counter.
---@field devices culprit.Table One row is a device of a process.
---@field ranks culprit.Table One row is a process of the job.
---@field collectives culprit.Table One row is a collective of one rank, with its kernel's times.
---@field scalars culprit.Table One row is a logged scalar.
---@field tensors culprit.Table One row is one tensor of one dump.
---@field log_lines culprit.Table One row is a line of a text log; of a log beyond 64 MiB the first lines of each template.
---@field log_templates culprit.Table One row is all lines of one log that differ in numbers, paths and hashes alone.
---@field errors culprit.Table One row is a parsed exception or device error.
---@field requests culprit.Table One row is a generation request.
---@field tokens culprit.Table One row is one token of a request.
---@field documents culprit.Table One row is an example of a data set: a document, or a question with its answer.
---@field config culprit.Table One row is a setting of a run.
---@field packages culprit.Table One row is an installed package.
---@field compilations culprit.Table One row is something torch.compile says of its work in a log: a recompile, a graph break, a cache hit or miss.
---@field thread_states culprit.Table One row is a time in which a host thread was in one scheduler state.
---@field profiler_events culprit.Table One row is what a profiler says about its own record.
---@field memory_blocks culprit.Table One row is a block of the caching allocator at the time of a snapshot.
---@field process_groups culprit.Table One row is a process group as one rank knows it, with how far its collectives got.
---@field stacks culprit.Table One row is the call stack of a thread at one moment.
---@field steps culprit.Table One row is a training or inference step of one rank.
---@field windows culprit.Table One row is the steady part of one device's record, which shares refer to.
---@field gaps culprit.Table One row is a piece of a window in which the device ran nothing, told by what the next work waited for.
---@field launches culprit.Table One row is a piece of device work with the host call that launched it.
---@field critical_path culprit.Table One row is a piece of the longest chain of waits behind a device's window; the pieces of a window follow each other without overlap and add up to it.
---@field matched_collectives culprit.Table One row is a collective that at least two ranks recorded, matched by group and sequence number.
---@field capture_quality culprit.Table One row is how far the record of one device can be trusted.
---@field waits culprit.Table One row is what one rank has to do with a call that hangs, which is the oldest that a rank has not completed; of flight-recorder dumps.

---@class culprit.Table
local Table = {}

---The rows for which an expression is true, or whose columns have the given values (a list of values means any of them). `?` in an expression stands for the next argument.
---```lua
---case.gpu_work:where("dur < ? and match(name, '*gemm*')", 20 * units.us):count()
---```
---@param filter string|table<string, any>
---@param ... any
---@return culprit.Table
---@nodiscard
function Table:where(filter, ...) end

---The rows in the order of the given columns; `-` before a name is largest first. Stable; rows without a value come last.
---```lua
---work:sort("-dur", "start"):last().name
---```
---@param ... string
---@return culprit.Table
---@nodiscard
function Table:sort(...) end

---The `n` rows with the largest value of a column, largest first. Rows without a value and NaN are left out.
---```lua
---gaps:top(5, "dur"):first().dur
---```
---@param n integer
---@param column string
---@return culprit.Table
---@nodiscard
function Table:top(n, column) end

---The `n` rows with the smallest value of a column, smallest first. Rows without a value and NaN are left out.
---```lua
---work:bottom(2, "dur"):first().name
---```
---@param n integer
---@param column string
---@return culprit.Table
---@nodiscard
function Table:bottom(n, column) end

---`count` rows from row `first` on, counted from 0; fewer where the table ends.
---```lua
---kernels:slice(0, 2):count()
---```
---@param first integer
---@param count integer
---@return culprit.Table
---@nodiscard
function Table:slice(first, count) end

---The rows at some positions, counted from 0, in that order; repeats are allowed. A column of positions, such as `before` of gaps, may have missing values, which are left out.
---```lua
---work:take(gaps:col("before")):first().name
---```
---@param rows integer[]|culprit.Column
---@return culprit.Table
---@nodiscard
function Table:take(rows) end

---One row for each distinct combination of the given columns: the first.
---```lua
---work:distinct("kind"):count()
---```
---@param ... string
---@return culprit.Table
---@nodiscard
function Table:distinct(...) end

---The row and the `n` rows before and after it in this table.
---```lua
---loss:around(spike, 2):count()
---```
---@param row culprit.Row
---@param n integer
---@return culprit.Table
---@nodiscard
function Table:around(row, n) end

---The rows of this table and then those of the other, in the columns both have.
---```lua
---uploads:concat(downloads):count()
---```
---@param other culprit.Table
---@return culprit.Table
---@nodiscard
function Table:concat(other) end

---Each row with the columns of the first row of `other` that agrees on the keys; a column whose name is taken gets `_right` after it. `inner`, the default, drops rows without a partner, `left` keeps them without values.
---```lua
---kernels:join(case.host_calls, { "rank" }):first().role_right
---```
---@param other culprit.Table
---@param keys string|string[]
---@param kind? "inner"|"left"
---@return culprit.Table
---@nodiscard
function Table:join(other, keys, kind) end

---Each row with the columns of the row of `other` that stands nearest by the numbers or times in the column `on` of both, among those that agree on the keys: the last that is not later (`backward`, the default), the first that is not earlier, or the nearer of these, and no further away than `tolerance`. All rows are kept, without values where there is none; a column whose name is taken, as that of `on`, gets `_right`.
---```lua
---kernels:join_asof(calls, "start", { "rank" }):last().start_right
---```
---@param other culprit.Table
---@param on string
---@param keys? string|string[]
---@param how? { direction?: "backward"|"forward"|"nearest", tolerance?: number }
---@return culprit.Table
---@nodiscard
function Table:join_asof(other, on, keys, how) end

---A row for each pair of intervals of the two tables that have some time in common and agree on the keys: the columns of both, those of `other` with `_right` where the name is taken, and `overlap`, the time in ns. In the order of this table, then of the other's starts. At most 10,000,000 pairs: `overlap` and `containing` need none.
---```lua
---gaps:join_overlapping(calls):sum("overlap")
---```
---@param other culprit.Table
---@param keys? string|string[]
---@return culprit.Table
---@nodiscard
function Table:join_overlapping(other, keys) end

---The table with columns added or replaced: a column, one value for all rows, or a string that is an expression over the columns that were there before.
---```lua
---launched:with { lead = "start - stop_right", twice = values * 2 }:first().twice
---```
---@param columns table<string, string|number|boolean|culprit.Column>
---@return culprit.Table
---@nodiscard
function Table:with(columns) end

---The column that an expression computes.
---```lua
---work:compute("dur / 2"):max()
---```
---@param expression string
---@param ... any
---@return culprit.Column
function Table:compute(expression, ...) end

---Only the given columns, in that order.
---```lua
---#work:select("name", "dur"):columns()
---```
---@param ... string
---@return culprit.Table
---@nodiscard
function Table:select(...) end

---One column.
---```lua
---loss:col("value"):max()
---```
---@param name string
---@return culprit.Column
function Table:col(name) end

---The names of the columns.
---```lua
---work:select("name", "dur"):columns()[2]
---```
---@return string[]
function Table:columns() end

---Whether there is a column of this name and some row has a value in it.
---```lua
---case.scalars:has("wall_time")
---```
---@param column string
---@return boolean
function Table:has(column) end

---The name of the table, as evidence prints it.
---```lua
---work:name()
---```
---@return string
function Table:name() end

---The table under another name: what evidence calls computed rows.
---```lua
---gaps:renamed("idle pieces"):name()
---```
---@param name string
---@return culprit.Table
---@nodiscard
function Table:renamed(name) end

---The number of rows; with a column, of rows that have a value in it.
---```lua
---case.tensors:where("nonfinite > 0"):count()
---```
---@param column? string
---@return integer
function Table:count(column) end

---The first row, or nil.
---```lua
---case.tensors:sort("step", "order"):first()
---```
---@return culprit.Row?
function Table:first() end

---The last row, or nil.
---```lua
---loss:last()
---```
---@return culprit.Row?
function Table:last() end

---The row at a position counted from 0, or nil past the end.
---```lua
---work:row(gap.next)
---```
---@param index integer
---@return culprit.Row?
function Table:row(index) end

---Goes over the rows, at most 10,000 of them: more is an error, since a verb does the same a hundred times faster.
---```lua
---for row in hot:top(3, "z"):rows() do log(row.step) end
---```
---@return fun(): culprit.Row?
function Table:rows() end

---Goes over the distinct values of the given columns, in order of first appearance: the values, then the table of their rows. Rows without such a value are left out. At most 50,000 groups; see `aggregate`.
---```lua
---for device, work in case.gpu_work:group("device") do log(device, work:count()) end
---```
---@param ... string
---@overload fun(self: culprit.Table, a: string, b: string): fun(): any, any, culprit.Table
---@overload fun(self: culprit.Table, a: string, b: string, c: string): fun(): any, any, any, culprit.Table
---@return fun(): any, culprit.Table
function Table:group(...) end

---One row for each distinct value of the keys, in order of first appearance, with computed columns: `count`, or `count`, `sum`, `min`, `max`, `mean`, `median`, `std`, a percentile such as `p99`, `distinct` (how many values), `first` or `last` and a column. Rows without a key are left out.
---```lua
---work:aggregate({ "kind" }, { n = "count", total = "sum dur", slow = "p99 dur" }):first().total
---```
---@param keys string|string[]
---@param columns table<string, string>
---@return culprit.Table
---@nodiscard
function Table:aggregate(keys, columns) end

---Windows of `width` ns one after another, from the earliest start (or `first`) to the one in which the last row begins: start, stop, dur, and columns as of `aggregate` over the rows that begin in each; `covered` is the time in ns that rows cover of it, whenever they begin. Windows without rows stand there too. At most 1,000,000.
---```lua
---work:windows(50, { n = "count", busy = "covered" }):first().busy
---```
---@param width integer
---@param columns? table<string, string>
---@param first? integer
---@return culprit.Table
---@nodiscard
function Table:windows(width, columns, first) end

---The rows whose text in a column has 8 words or more, with the columns `copy_of` (row, from 0, of the first text of which this is a copy; none for a text that is no copy), `similarity` to it (Jaccard over runs of five words) and `exact` (an earlier row has the same words). Copies share `similarity` (0.8) or more of these runs, what most rows share not counted; case and punctuation do not count. MinHash: about 60 MB of text a second.
---```lua
---case.documents:near_duplicates("text"):where("copy_of is not null"):count()
---```
---@param text string
---@param similarity? number
---@return culprit.Table
---@nodiscard
function Table:near_duplicates(text, similarity) end

---The rows whose text is long enough to be looked for within the texts of another table, with the columns `found_in` (row of `other`, from 0, that shares most), `share` of the words that stand there in runs of 13 (8 for short texts), `longest` (words of the longest common piece) and `exact` (all the same words). Runs that many texts have are commonplaces and do not count.
---```lua
---case.requests:standing_in("prompt", case.documents, "text"):where("share >= 0.5"):count()
---```
---@param text string
---@param other culprit.Table
---@param other_text? string
---@return culprit.Table
---@nodiscard
function Table:standing_in(text, other, other_text) end

---The sum of a column: exact and an integer for integers. 0 for no values; values that are not finite are left out.
---```lua
---gaps:sum("dur")
---```
---@param column string
---@return number
function Table:sum(column) end

---The smallest finite value of a column, or nil.
---```lua
---loss:min("value")
---```
---@param column string
---@return number?
function Table:min(column) end

---The largest finite value of a column, or nil.
---```lua
---loss:max("value")
---```
---@param column string
---@return number?
function Table:max(column) end

---The mean of the finite values of a column, or nil.
---```lua
---loss:mean("value")
---```
---@param column string
---@return number?
function Table:mean(column) end

---The median of the finite values of a column, or nil.
---```lua
---kernels:median("dur")
---```
---@param column string
---@return number?
function Table:median(column) end

---The sample standard deviation of a column, or nil for fewer than two values.
---```lua
---loss:std("value")
---```
---@param column string
---@return number?
function Table:std(column) end

---The `q` quantile, 0 to 1, of a column, or nil.
---```lua
---kernels:quantile("dur", 0.99)
---```
---@param column string
---@param q number
---@return number?
function Table:quantile(column, q) end

---Latest stop less earliest start in ns; 0 without rows.
---```lua
---work:span()
---```
---@param start? string
---@param stop? string
---@return integer
function Table:span(start, stop) end

---Time in ns that the rows cover, where they overlap once.
---```lua
---work:covered() / work:span()
---```
---@param start? string
---@param stop? string
---@return integer
function Table:covered(start, stop) end

---How many rows are open at a time: the longest stretches of one number, which may be 0, from the first start to the last stop, as start, stop, dur and `depth`.
---```lua
---work:depth():max("depth")
---```
---@param start? string
---@param stop? string
---@return culprit.Table
---@nodiscard
function Table:depth(start, stop) end

---The longest intervals that the rows cover: start, stop, dur.
---```lua
---work:union():count()
---```
---@param start? string
---@param stop? string
---@return culprit.Table
---@nodiscard
function Table:union(start, stop) end

---The intervals between those that the rows cover: start, stop, dur, and `before` and `after`, the rows on either side.
---```lua
---work:gaps("start", "stop"):where("dur >= ?", 20 * units.ns):first().start
---```
---@param start? string
---@param stop? string
---@return culprit.Table
---@nodiscard
function Table:gaps(start, stop) end

---The intervals that rows of both tables cover.
---```lua
---idle:intersect(calls):sum("dur")
---```
---@param other culprit.Table
---@return culprit.Table
---@nodiscard
function Table:intersect(other) end

---The intervals that rows of this table cover and rows of the other do not.
---```lua
---copies:subtract(kernels):sum("dur")
---```
---@param other culprit.Table
---@return culprit.Table
---@nodiscard
function Table:subtract(other) end

---For each row the time in ns that rows of the other table cover of it.
---```lua
---gaps:with { waiting = gaps:overlap(calls) }:first().waiting
---```
---@param other culprit.Table
---@return culprit.Column
function Table:overlap(other) end

---For each row the time in ns that no row of the other table covers of it: its length less `overlap`.
---```lua
---copies:with { exposed = copies:exposed(kernels) }:sum("exposed")
---```
---@param other culprit.Table
---@return culprit.Column
function Table:exposed(other) end

---For each row the position in the other table of the innermost interval that its start lies in, or no value.
---```lua
---gaps:with { wait = gaps:containing(waits) }:where("wait is not null"):first().wait
---```
---@param other culprit.Table
---@return culprit.Column
function Table:containing(other) end

---For each piece of device work the position among the spans (rows of `host_ops` or `ranges`) of the innermost one that was open on the launching thread when the call that launched it began, or no value. Where the call is not recorded, the span with the work's operator id.
---```lua
---kernels:with { step = kernels:launched_by(case.host_calls, case.ranges:where { category = "optimizer" }) }
---```
---@param calls culprit.Table
---@param spans culprit.Table
---@return culprit.Column
function Table:launched_by(calls, spans) end

---By how many ns the last of this work of one device would end sooner if each row were shorter by the ns in a column. Given the host calls of its process: work cannot begin before its launch, and where the host waits for the device it goes on sooner.
---```lua
---work:with { saved = "dur * 0.5" }:ends_sooner("saved", case.host_calls)
---```
---@param column string
---@param calls culprit.Table
---@return integer
function Table:ends_sooner(column, calls) end

---Rows of `tensors` beside the first row of `reference` that agrees on the keys, with `rel_err` (l2 of the difference over l2 of the reference), `max_abs`, `mean_abs`, `cosine`, `first_diff` (flat index of the first element that differs), `shapes_differ` and `reference`, the row of the partner. Rows without one are dropped; where shapes differ there are no figures; a value that is finite on one side alone makes `rel_err` and `max_abs` infinite.
---```lua
---cached:compare(full, { "token", "order", "layer" }):where("rel_err > 0.01"):first().max_abs
---```
---@param reference culprit.Table
---@param keys string|string[]
---@return culprit.Table
---@nodiscard
function Table:compare(reference, keys) end

---What differs in meaning between these rows of `config` (or `packages`) and those of `after`: `key`, `other_key` (an alias on the other side), `before`, `after` (nil for absent), `kind`, `group`, `effect` (`results`, `cost` or `none`), `causes` (symptoms and classes that another value can bring about, with blanks between), `known`, `why` (what makes up for it), `says`, `before_row` and `after_row` (places in the two tables). Those that may change results come first, the weightiest before others. The second value counts how many things these are: factors of one batch size, packages and seeds are one each.
---```lua
---local changes, things = case.config:where { run = "before" }:changes(case.config:where { run = "after" })
---```
---@param after culprit.Table
---@return culprit.Table, integer
function Table:changes(after) end

---Of square attention weights in the order of their layers: how much each place of the input adds to what stands at `query` after the last, in row `row` (0) of the batch; heads are averaged and half of each step passes along the residual stream (attention rollout). Nil where shapes do not fit.
---```lua
---case.tensors:where { name = "attention" }:sort("order"):attention_rollout(1)[1]
---```
---@param query integer
---@param row? integer
---@return number[]?
function Table:attention_rollout(query, row) end

---@class culprit.Row
---@field [string] any The row's value in the column of that name; nil where it has none.
local Row = {}

---Elements of a tensor, by flat index from 0; at most 10,000.
---```lua
---row:values(1, 2)[2]
---```
---@param first? integer
---@param count? integer
---@return number[]
function Row:values(first, count) end

---One element of a tensor: a place for each axis, counted from 0.
---```lua
---row:element({ 0, 1 })
---```
---@param places integer[]
---@return number
function Row:element(places) end

---A flat index of a tensor as a position: [0, 3, 17, 40].
---```lua
---bad:unravel(bad.first_nonfinite)
---```
---@param index integer
---@return string
function Row:unravel(index) end

---How many elements of a tensor equal a value.
---```lua
---labels:count_equal(-100)
---```
---@param value number
---@return integer
function Row:count_equal(value) end

---Of two integer tensors of one shape: the share of places along the last axis where `row[i] == other[i + shift]`, those where either holds `ignore` left out. Nil when no place is left.
---```lua
---labels:equal_share(inputs, 1, -100)
---```
---@param other culprit.Row
---@param shift? integer
---@param ignore? integer
---@return number?
function Row:equal_share(other, shift, ignore) end

---What `compare` of tables says of two tensors: a table with rel_err, max_abs, mean_abs, cosine and first_diff, or nil when their shapes differ.
---```lua
---local d = now:compare(before)  if d then log(d.max_abs) end
---```
---@param reference culprit.Row
---@return table<string, number>?
function Row:compare(reference) end

---Whether each element of a tensor is as close to that of the reference as `atol` + `rtol` times its magnitude (1e-8 and 1e-5); how many are not, and the flat index of the first of these. What is not finite on one side alone is not close; what is not finite on both is. Nil when the shapes differ.
---```lua
---now:allclose(before)
---```
---@param reference culprit.Row
---@param rtol? number
---@param atol? number
---@return boolean?, integer?, integer?
function Row:allclose(reference, rtol, atol) end

---The `q` quantile, 0 to 1, of a tensor's finite elements; of more than 2^22 elements as many are evenly chosen.
---```lua
---row:quantile(0.5)
---```
---@param q number
---@return number?
function Row:quantile(q) end

---A figure for each place of an axis, counted from 0, over all other axes: of the finite elements, or how many are not finite. Without finite elements it is false. At most 100,000 places.
---```lua
---row:along(1, "max")[1]
---```
---@param axis integer
---@param what "max"|"min"|"abs_max"|"mean"|"rms"|"sum"|"nonfinite"
---@return number[]
function Row:along(axis, what) end

---Of two tensors of one shape: the largest difference at each place of an axis (counted from 0), over all other axes, or only at place `first` of axis 0, against place `other` (the same if not given) of the reference. Infinite where one side alone is finite; nil when the shapes differ.
---```lua
---for place, d in ipairs(row:difference_along(now, 1)) do log(place - 1, d) end
---```
---@param reference culprit.Row
---@param axis integer
---@param first? integer
---@param other? integer
---@return number[]?
function Row:difference_along(reference, axis, first, other) end

---The share of positions of a tensor of logits whose largest stands for the id in `other`, an integer tensor without the last axis (of more rows the first count), `shift` places later; where that holds `ignore` it is left out. With logits of the same shape: the share of positions whose largest stands in the same place. Nil when no position is left.
---```lua
---logits:argmax_share(ids, 1)
---```
---@param other culprit.Row
---@param shift? integer
---@param ignore? integer
---@return number?
function Row:argmax_share(other, shift, ignore) end

---Of a hidden state [..., positions, width], the weight [vocabulary, width] of the output layer and integer labels: the share of positions at which the product's largest value stands for the label `shift` places later, those equal to `ignore` left out. At most 256 positions, spread evenly; fewer where the weight is large. Nil when the shapes do not fit or the weight has more than 2^29 elements.
---```lua
---units.number(hidden:lens_share(head, labels))
---```
---@param head culprit.Row
---@param labels culprit.Row
---@param shift? integer
---@param ignore? integer
---@return number?
function Row:lens_share(head, labels, shift, ignore) end

---The mean cross-entropy in nats of a tensor of logits against integer labels, `shift` places later, those equal to `ignore` left out. With `twice`, what comes out when the logits went through a softmax before. Nil when the shapes do not fit, no label is left, or one lies outside the vocabulary.
---```lua
---units.number(logits:cross_entropy(labels, 0, -100))
---```
---@param labels culprit.Row
---@param shift? integer
---@param ignore? integer
---@param form? "logits"|"twice"
---@return number?
function Row:cross_entropy(labels, shift, ignore, form) end

---Of attention weights [..., queries, keys] the largest share of one query's weights on keys after it, by more than `offset` places (0); the last query stands at the last key. Nil for what is no such tensor.
---```lua
---units.number(probs:mass_above_diagonal())
---```
---@param offset? integer
---@return number?
function Row:mass_above_diagonal(offset) end

---Of attention weights [..., queries, keys] the largest share of one query's weights on keys of another document; `bounds` holds the positions at which documents begin (`cu_seqlens`), which may count on through the rows of axis 0.
---```lua
---probs:mass_across(bounds)
---```
---@param bounds culprit.Row
---@return number?
function Row:mass_across(bounds) end

---The sums of a tensor's elements along an axis, counted from 0: a table with min, max and mean of the finite sums, and nonfinite, the number of the others. Nil for a tensor without elements.
---```lua
---units.number(probs:sums_along(#probs.shape - 1).min)
---```
---@param axis integer
---@return table<string, number>?
function Row:sums_along(axis) end

---Attention weights [rows, heads, queries, keys] head by head, the last query at the last key: row, head, queries (lines that count), nan (lines with a value that is not finite) and first_nan, empty (lines of zeros), sum_min, sum_max and sum_mean of the lines, off (largest distance of a sum from 1) with off_sum and off_query, entropy (mean, 1 for even weights over the keys that are visible), sink and sink_min (share of the first key, over later queries). With integers `ids` [rows, keys], of which those equal to `marked` (0) mark keys: lines of marked queries are left out, and marked, marked_max and marked_query say what share of a line lies on marked keys. Nil for what is no such tensor, and where the ids do not fit.
---```lua
---probs:attention_heads():top(1, "off"):first().queries
---```
---@param ids? culprit.Row
---@param marked? integer
---@return culprit.Table?
function Row:attention_heads(ids, marked) end

---How many distinct values an integer tensor holds; counting stops at the limit, 100,000 when not given.
---```lua
---labels:distinct_values()
---```
---@param limit? integer
---@return integer
function Row:distinct_values(limit) end

---@class culprit.Column
---@operator add(number): culprit.Column
---@operator add(culprit.Column): culprit.Column
---@operator sub(number): culprit.Column
---@operator sub(culprit.Column): culprit.Column
---@operator mul(number): culprit.Column
---@operator mul(culprit.Column): culprit.Column
---@operator div(number): culprit.Column
---@operator div(culprit.Column): culprit.Column
---@operator unm: culprit.Column
local Column = {}

---Deviation of each value from the median of the `window` values before it, in robust standard deviations of those; up is positive. No value for the first ones.
---```lua
---loss:col("value"):robust_z(16):argmax()
---```
---@param window integer
---@return culprit.Column
function Column:robust_z(window) end

---Each value less the one before it.
---```lua
---steps:col("start"):diff():at(1)
---```
---@return culprit.Column
function Column:diff() end

---Over the `window` values that end at each row.
---```lua
---loss:col("value"):rolling(3, "median"):at(20)
---```
---@param window integer
---@param kind "mean"|"median"|"min"|"max"
---@return culprit.Column
function Column:rolling(window, kind) end

---Magnitudes.
---```lua
---deltas:abs():max()
---```
---@return culprit.Column
function Column:abs() end

---The value `by` rows before each (1), or after it when negative; no value where there is no such row. Of any type.
---```lua
---(steps:col("start") - steps:col("stop"):shift()):at(1)
---```
---@param by? integer
---@return culprit.Column
function Column:shift(by) end

---The sum of all values up to each row, exact for integers. What has no finite value adds nothing and stays without.
---```lua
---work:col("dur"):cumsum():at(2)
---```
---@return culprit.Column
function Column:cumsum() end

---The place of each value in ascending order, from 1; equal values share the mean of their places.
---```lua
---work:col("dur"):rank():at(0)
---```
---@return culprit.Column
function Column:rank() end

---Values below `low` as `low`, and above `high` as `high`; either may be nil.
---```lua
---work:col("dur"):clip(20, nil):min()
---```
---@param low? number
---@param high? number
---@return culprit.Column
function Column:clip(low, high) end

---Natural logarithms; no value for what is not positive.
---```lua
---units.number(values:log():max())
---```
---@return culprit.Column
function Column:log() end

---How many rows have a value.
---```lua
---values:count()
---```
---@return integer
function Column:count() end

---As for tables.
---```lua
---values:sum()
---```
---@return number
function Column:sum() end

---As for tables.
---```lua
---values:min()
---```
---@return number?
function Column:min() end

---As for tables.
---```lua
---values:max()
---```
---@return number?
function Column:max() end

---As for tables.
---```lua
---values:mean()
---```
---@return number?
function Column:mean() end

---As for tables.
---```lua
---values:median()
---```
---@return number?
function Column:median() end

---As for tables.
---```lua
---values:std()
---```
---@return number?
function Column:std() end

---As for tables.
---```lua
---values:quantile(0.9)
---```
---@param q number
---@return number?
function Column:quantile(q) end

---Median absolute deviation times 1.4826: the standard deviation of a normal sample, not moved by outliers.
---```lua
---values:robust_std()
---```
---@return number?
function Column:robust_std() end

---Robust (Theil-Sen) slope over `x`, or over the row number; nil for fewer than two distinct `x`.
---```lua
---units.number(work:col("stop"):slope(work:col("start")))
---```
---@param x? culprit.Column
---@return number?
function Column:slope(x) end

---Pearson's correlation with another column of the same rows, or Spearman's, which is that of the ranks, over the rows where both have finite values; nil for fewer than two, or where one is all the same.
---```lua
---work:col("start"):correlation(work:col("dur"), "spearman")
---```
---@param other culprit.Column
---@param kind? "pearson"|"spearman"
---@return number?
function Column:correlation(other, kind) end

---The row, from 0, of the largest finite value, the first of several; nil without values.
---```lua
---work:col("stop"):argmax()
---```
---@return integer?
function Column:argmax() end

---The row, from 0, of the smallest finite value, the first of several; nil without values.
---```lua
---work:col("dur"):argmin()
---```
---@return integer?
function Column:argmin() end

---How many finite values lie in each of some bins of equal width between the smallest and the largest value, or between edges that rise: from, to (which is not in the bin, but for the last) and `count`. Values beyond the edges are not counted.
---```lua
---work:col("dur"):histogram({ 0, 20, 50 }):row(1).count
---```
---@param bins integer|number[]
---@return culprit.Table
function Column:histogram(bins) end

---Of a column of texts the edit distance of each to a text, as `distance` of texts.
---```lua
---work:col("name"):distance("gemm"):min()
---```
---@param text string
---@param limit? integer
---@return culprit.Column
function Column:distance(text, limit) end

---Where the level changes, in order: `at` (row from 0), `before`, `after`, `score`. Each stretch is at least `min_segment` values long, 8 when not given.
---```lua
---for c in loss:col("value"):change_points():rows() do log(c.at, c.score) end
---```
---@param min_segment? integer
---@return culprit.Table
function Column:change_points(min_segment) end

---Whether a column of whole numbers or texts ends in a loop: its longest tail that is one piece `repeats` times (4) or more, the last turn perhaps unfinished. A table with period, repeats, length and onset (the first row of the loop, from 0), or nil.
---```lua
---loss:col("name"):loop(4).period
---```
---@param repeats? integer
---@return table<string, integer>?
function Column:loop(repeats) end

---The value in a row counted from 0, or nil.
---```lua
---values:at(0)
---```
---@param index integer
---@return any
function Column:at(index) end

---All values as a list, at most 10,000; false stands for no value.
---```lua
---for i, value in ipairs(losses:values()) do log(i, value) end
---```
---@return any[]
function Column:values() end

---Says that a symptom was seen.
---```lua
---report { symptom = "gpu-idle", score = 0.8, at = { device = 0 }, message = "GPU 0 is idle", evidence = { gaps:top(5, "dur") } }
---```
---@param finding culprit.Report
function report(finding) end

---Says that the case is not enough to judge by, and what would be: the outcome is `skipped`, unless something was reported; then the symptoms that were not are left open. With symptoms after it, these alone are left open. It does not leave `run`: write `return skip(...)`.
---```lua
---skip("at least 32 kernels: record more steps")
---```
---@param needed string
---@param ... string
function skip(needed, ...) end

---Writes a line for the author of the detector; nobody else sees it.
---```lua
---log("window", window.dur)
---```
---@param ... any
function log(...) end

---@class culprit.Units
---@field ns integer 1: times are in ns.
---@field us integer 1,000 ns.
---@field ms integer 1,000,000 ns.
---@field s integer 1,000,000,000 ns.
---@field min integer 60 s.
---@field KiB integer 1,024.
---@field MiB integer 1,048,576.
---@field GiB integer 1,073,741,824.
units = {}

---A duration in ns as people read it: 11.2 us, 2 min 5 s.
---```lua
---units.format(1500)
---```
---@param ns number
---@return string
function units.format(ns) end

---A size: 1.50 KiB.
---```lua
---units.bytes(1536)
---```
---@param bytes number
---@return string
function units.bytes(bytes) end

---A count: 2,160,551.
---```lua
---units.count(2160551)
---```
---@param n number
---@return string
function units.count(n) end

---A count and its noun: 1 kernel, 2 kernels; `many` where it does not end in s.
---```lua
---units.plural(kernels:count(), "kernel")
---```
---@param n number
---@param one string
---@param many? string
---@return string
function units.plural(n, one, many) end

---A share of 1: 12 %, 0.4 %.
---```lua
---units.percent(0.12)
---```
---@param share number
---@return string
function units.percent(share) end

---A number in four significant digits, or as many as given: 0.6931, nan, -inf.
---```lua
---units.number(0.693147)
---```
---@param value number
---@param digits? integer
---@return string
function units.number(value, digits) end

---@class stringlib
string = {}

---@class string: stringlib

---As in Lua: %d %i %u %c %x %X %o %e %f %g %a %s %q %%. A whole number is good for %d whatever its type.
---```lua
---("GPU %d is idle %.0f%%"):format(0, 12.5)
---```
---@param format string
---@param ... any
---@return string
function string.format(format, ...) end

---The characters from `first` to `last`, counted from 1, from the end when negative.
---```lua
---name:sub(1, 6)
---```
---@param s string
---@param first integer
---@param last? integer
---@return string
function string.sub(s, first, last) end

---In lower case, ASCII.
---```lua
---name:lower()
---```
---@param s string
---@return string
function string.lower(s) end

---In upper case, ASCII.
---```lua
---name:upper()
---```
---@param s string
---@return string
function string.upper(s) end

---The number of bytes.
---```lua
---name:len()
---```
---@param s string
---@return integer
function string.len(s) end

---`n` times; the result may have 1 MiB.
---```lua
---("-"):rep(20)
---```
---@param s string
---@param n integer
---@param separator? string
---@return string
function string.rep(s, n, separator) end

---The code of one byte, the first when not given.
---```lua
---("A"):byte()
---```
---@param s string
---@param index? integer
---@return integer?
function string.byte(s, index) end

---Without white space at both ends.
---```lua
---line:trim()
---```
---@param s string
---@return string
function string.trim(s) end

---Whether the text occurs in the string.
---```lua
---line:contains("CUDA error")
---```
---@param s string
---@param text string
---@return boolean
function string.contains(s, text) end

---Whether the string begins so.
---```lua
---name:starts_with("module.")
---```
---@param s string
---@param text string
---@return boolean
function string.starts_with(s, text) end

---Whether the string ends so.
---```lua
---name:ends_with(".weight")
---```
---@param s string
---@param text string
---@return boolean
function string.ends_with(s, text) end

---Whether the whole string matches: `*` any run, `?` any character, `|` between alternatives. As `match` in expressions.
---```lua
---name:glob("*.weight|*.bias")
---```
---@param s string
---@param pattern string
---@return boolean
function string.glob(s, pattern) end

---Where the text occurs first, counted from 1, or nil.
---```lua
---line:index(":")
---```
---@param s string
---@param text string
---@param from? integer
---@return integer?
function string.index(s, text, from) end

---The parts between separators.
---```lua
---("a.b.c"):split(".")[2]
---```
---@param s string
---@param separator string
---@return string[]
function string.split(s, separator) end

---With every occurrence of the text replaced.
---```lua
---name:replace("module.", "")
---```
---@param s string
---@param text string
---@param by string
---@return string
function string.replace(s, text, by) end

---How many characters must be added, removed or replaced to make one text of the other (Levenshtein), or nil for more than `limit` (1,000). Takes time in the product of the limit and the shorter text, where they differ.
---```lua
---("kitten"):distance("sitting")
---```
---@param s string
---@param other string
---@param limit? integer
---@return integer?
function string.distance(s, other, limit) end

---1 less the edit distance over the length of the longer text: 1 for equal texts, 0 for nothing in common. The first 2,000 characters of each count.
---```lua
---("abcd"):similarity("abxd")
---```
---@param s string
---@param other string
---@return number
function string.similarity(s, other) end

---The decimal numbers in the string, in order.
---```lua
---("step 12 of 300"):numbers()[2]
---```
---@param s string
---@return number[]
function string.numbers(s) end

---Whether the text ends in a loop, as `loop` of columns, in bytes: period, repeats, length and onset (counted from 1), or nil.
---```lua
---("It is. so so so so"):loop(4).period
---```
---@param s string
---@param repeats? integer
---@return table<string, integer>?
function string.loop(s, repeats) end

---What letters a UTF-8 text is made of: characters, letters, replaced (U+FFFD and broken bytes, but for a cut at the end) and first_replaced, control, words, mixed (words of two alphabets) and first_mixed, jumps (neighbouring words of a line in two scripts, neither Latin), scripts (with three letters or more).
---```lua
---name:writing().replaced
---```
---@param s string
---@return table<string, integer>
function string.writing(s) end
