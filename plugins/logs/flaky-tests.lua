--- ## What it detects
--- Tests that pass in one place of the logs and fail in another: of pytest, GoogleTest, CTest, lit and unittest.
---
--- ## Why it matters
--- A test that flips on the same code sees something that the code does not fix: a seed, an order, a clock, a race, or
--- a tolerance at the edge of its noise. The same thing moves training runs, where nothing fails and only numbers
--- differ.
---
--- ## How to confirm
--- Run the test alone 50 times, then 50 times in a random order with others: a share of failures that changes with the
--- order means shared state, one that does not means seeds, clocks or tolerance.
---
--- ## Known false positives
--- Logs of different commits or machines in one folder. Give the logs of one commit.
---
--- ## References
--- The entropy of the outcomes is 1 bit for a coin and 0 for a test that always ends alike.

--- What a line says of a test: its name and whether it passed. Nil for other lines.
local function outcome(text)
  -- GoogleTest: "[       OK ] Suite.Name (3 ms)", "[  FAILED  ] Suite.Name (3 ms)".
  if text:starts_with("[") then
    local close = text:index("]")
    local word  = close and text:sub(2, close - 1):trim()
    if word ~= "OK" and word ~= "FAILED" then return end
    local name = text:sub(close + 1):trim():split(" ")[1]
    -- The summary counts, "[  FAILED  ] 2 tests, listed below:", and repeats names without a time.
    if name and name:contains(".") and text:ends_with("ms)") then return name, word == "OK" end
    return
  end
  -- lit: "PASS: suite :: folder/name.test (1 of 9)".
  local said, rest = text:sub(1, 6), text:sub(7)
  if said == "PASS: " or said == "FAIL: " then
    if rest:contains(" :: ") and rest:contains(" of ") then return rest:split(" (")[1], said == "PASS: " end
    return
  end
  -- pytest -v: "tests/test_a.py::test_b PASSED [ 10%]".
  for _, word in ipairs({ " PASSED", " FAILED", " ERROR" }) do
    local at = text:index(word)
    if at and text:sub(1, at - 1):contains("::") and not text:sub(1, at - 1):contains(" ") then
      return text:sub(1, at - 1), word == " PASSED"
    end
  end
  -- CTest: "3/9 Test  #3: name .......   Passed    0.01 sec", "...***Failed  0.02 sec".
  local at = text:index("Test ")
  if at and text:contains(" sec") and text:contains("#") then
    local name = (text:split(": ")[2] or ""):split(" ")[1]
    if name and text:contains(" Passed ") then return name, true end
    if name and text:contains("***Failed") then return name, false end
  end
  -- unittest -v: "test_a (module.Class) ... ok".
  local dots = text:index(") ... ")
  if dots and text:starts_with("test") then
    local word = text:sub(dots + 6):trim()
    if word == "ok" then return text:sub(1, dots), true end
    if word == "FAIL" or word == "ERROR" then return text:sub(1, dots), false end
  end
end

local function bits(share)
  if share <= 0 or share >= 1 then return 0 end
  return -(share * math.log(share, 2) + (1 - share) * math.log(1 - share, 2))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Tests that both pass and fail",
  needs    = { log_lines = { "text" } },
  symptoms = { "test-outcome-flips" },
  options  = {
    shown = { default = 3, doc = "Tests named in the message" },
  },

  run = function(case)
    local lines = case.log_lines:where("match(text, '*OK ] *ms)|*FAILED* ] *ms)|PASS: * :: *|FAIL: * :: *|"
      .. "*::* PASSED*|*::* FAILED*|*::* ERROR*|*Test *#*: * sec*|*test*) ... *')")
    if lines:count() == 0 then
      skip("results of tests in a log: of pytest -v, GoogleTest, CTest, lit or unittest -v")
    end
    local order, tests = {}, {}
    for line in lines:slice(0, 10000):rows() do
      local name, passed = outcome(line.text:trim())
      if name then
        local test = tests[name]
        if not test then
          test = { name = name, passes = 0, runs = 0 }
          tests[name], order[#order + 1] = test, test
        end
        test.runs   = test.runs + 1
        test.passes = test.passes + (passed and 1 or 0)
        if passed then test.good = test.good or line else test.bad = test.bad or line end
      end
    end
    local flaky, evidence = {}, {}
    for _, test in ipairs(order) do
      if test.good and test.bad then flaky[#flaky + 1] = test end
    end
    if #flaky == 0 then return end
    table.sort(flaky, function(a, b)
      local x, y = bits(a.passes / a.runs), bits(b.passes / b.runs)
      if x ~= y then return x > y end
      return a.name < b.name
    end)
    local named = {}
    for i = 1, math.min(#flaky, case.options.shown) do
      local test = flaky[i]
      named[i] = ("%s fails %d of %d times (%.2f bits)"):format(test.name, test.runs - test.passes, test.runs,
        bits(test.passes / test.runs))
      evidence[#evidence + 1], evidence[#evidence + 2] = test.bad, test.good
    end
    local more = #flaky > #named and ("; %d more"):format(#flaky - #named) or ""
    report {
      symptom  = "test-outcome-flips",
      score    = 0.95,
      severity = "warning",
      at       = { source = flaky[1].bad.source, line = flaky[1].bad.line },
      message  = ("%s of %d both pass and fail: %s%s"):format(units.plural(#flaky, "test"), #order,
        table.concat(named, ", "), more),
      evidence = evidence,
    }
  end,
}
