--- ## What it detects
--- Requests recorded at several hops (client, gateway, server, engine): the first hop whose prompt, number of prompt
--- tokens or settings differ from the hop before, whether a part of the prompt was dropped, and whether text of another
--- request came in.
---
--- ## Why it matters
--- The model answers what reaches it. The first hop that differs holds the fault, whatever the later ones show.
---
--- ## How to confirm
--- Replay the body recorded behind that hop against the next one directly.
---
--- ## Known false positives
--- A server wraps messages in its template: lines of the client's prompt must reach it, what stands around them may
--- differ. Lines that many requests share, such as a system prompt, are nobody's.
---
--- ## References
--- docs/tables.md, `requests.hop`.

local ROWS = 10000
local ORDER = { client = 1, gateway = 2, server = 3, engine = 4 }
local SETTINGS = { "temperature", "top_p", "max_tokens", "seed" }

local ROLES = { "user: ", "system: ", "assistant: ", "developer: ", "human: ", "gpt: ", "tool: " }

--- The lines of a prompt that are long enough to be told apart, without the names of roles that messages are joined
--- with: a template has its own.
local function lines(text, length)
  local out = {}
  for _, line in ipairs(text:split("\n")) do
    line = line:trim()
    for _, role in ipairs(ROLES) do
      if line:starts_with(role) then
        line = line:sub(#role + 1, -1):trim()
        break
      end
    end
    if #line >= length and #out < 500 then table.insert(out, line) end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The hop at which a request changes",
  needs    = { requests = { "id", "hop" } },
  symptoms = { "hop-changes-prompt", "hop-cuts-prompt", "hop-adds-foreign-text", "hop-changes-tokens",
    "hop-changes-settings" },
  options  = { share = { default = 0.05, doc = "Share of requests that must differ at a hop" } },

  run = function(case)
    -- The hops of each request, in the order of the way.
    local chains, ids, owners = {}, {}, {}
    for row in case.requests:where("hop is not null and id is not null"):slice(0, ROWS):rows() do
      if not chains[row.id] then
        chains[row.id] = {}
        table.insert(ids, row.id)
      end
      table.insert(chains[row.id], row)
    end
    for _, id in ipairs(ids) do
      local own = {}
      for _, row in ipairs(chains[id]) do
        if (ORDER[row.hop] or 9) == 1 and row.prompt then
          for _, line in ipairs(lines(row.prompt, 24)) do
            if not own[line] then
              own[line]    = true
              owners[line] = owners[line] == nil and id or false -- nobody's, if several have it
            end
          end
        end
      end
    end

    local found, pairs_seen = {}, 0
    local function note(kind, near, far, text)
      local list = found[kind] or { n = 0, text = text, hop = far.hop, from = near.hop, id = near.id, rows = {} }
      found[kind] = list
      list.n = list.n + 1
      if #list.rows < 6 then
        table.insert(list.rows, near)
        table.insert(list.rows, far)
      end
    end
    for _, id in ipairs(ids) do
      local chain, done = chains[id], {}
      table.sort(chain, function(a, b) return (ORDER[a.hop] or 9) < (ORDER[b.hop] or 9) end)
      for i = 2, #chain do
        local near, far = chain[i - 1], chain[i]
        -- A retry is the same request at the same hop.
        if near.hop ~= far.hop then
          pairs_seen = pairs_seen + 1
          local equal = false
          if near.prompt and far.prompt and not done.prompt then
            ---@type string[], integer, integer, string?
            local sent, lost, head, missing = lines(near.prompt, 12), 0, 0, nil
            for k, line in ipairs(sent) do
              if not far.prompt:contains(line) then
                lost    = lost + 1
                missing = missing or line
                if k == head + 1 then head = k end
              end
            end
            equal = lost == 0
            if lost > 0 then
              done.prompt = true
              -- Whole lines gone and nothing in their place: cut. Otherwise rewritten.
              if lost < #sent and #far.prompt < #near.prompt then
                note("hop-cuts-prompt", near, far, ("%d of %d lines of the prompt do not pass, %s"):format(lost, #sent,
                  head == lost and "its first ones" or ("\"%s\" among them"):format(missing:sub(1, 40))))
              else
                note("hop-changes-prompt", near, far, ("\"%s\" becomes \"%s\""):format(
                  near.prompt:sub(1, 40):replace("\n", "\\n"), far.prompt:sub(1, 40):replace("\n", "\\n")))
              end
            end
            for _, line in ipairs(lines(far.prompt, 24)) do
              local owner = owners[line]
              if owner and owner ~= id and not near.prompt:contains(line) then
                note("hop-adds-foreign-text", near, far,
                  ("\"%s\" comes from request %s"):format(line:sub(1, 50), owner))
                done.prompt = true
                break
              end
            end
          end
          if near.prompt_tokens and far.prompt_tokens and near.prompt_tokens ~= far.prompt_tokens and not done.tokens
            and (equal or not near.prompt or not far.prompt) then
            done.tokens = true
            note("hop-changes-tokens", near, far, ("%d prompt tokens become %d"):format(near.prompt_tokens,
              far.prompt_tokens))
          end
          local changed = {}
          for _, key in ipairs(SETTINGS) do
            local a, b = near[key], far[key]
            if b and a ~= b and not (a and math.abs(a - b) <= 1e-6 * math.abs(a)) and not done[key] then
              done[key] = true
              -- A limit that the client left open is filled in by any server.
              if a or key == "temperature" or key == "top_p" then
                table.insert(changed, ("%s %s -> %s"):format(key, a and units.number(a) or "unset", units.number(b)))
              end
            end
          end
          if #changed > 0 then note("hop-changes-settings", near, far, table.concat(changed, ", ")) end
        end
      end
    end
    if pairs_seen == 0 then return skip("one request id at two hops: log the body at the client and at the server") end

    for kind, f in pairs(found) do
      if f.n >= case.options.share * pairs_seen then
        report {
          symptom = kind, score = kind == "hop-changes-tokens" and 0.8 or 0.9, at = { name = f.hop },
          message = ("%d of %s between %s and %s: %s (%s)"):format(f.n, units.plural(pairs_seen, "passage"), f.from,
            f.hop, f.text, f.id),
          evidence = f.rows,
        }
      end
    end
  end,
}
