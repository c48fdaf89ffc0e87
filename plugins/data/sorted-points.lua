--- ## What it detects
--- Clouds of points of a dumped batch that are listed in order of one coordinate, every one of them, and have as many
--- points as a limit of the settings: what was cut off lies at one end of them all.
---
--- ## Why it matters
--- The first points of a list are a sample of a cloud where the list has no order. Of one that goes from low to high
--- the upper part is gone, and with it whole parts and classes that validation has.
---
--- ## How to confirm
--- Draw one cloud before and after the limit, and shuffle the points before they are cut.
---
--- ## Known false positives
--- Clouds that are put in order for a model of sequences, and have no more points than the limit by themselves; they
--- count for less, unless another setting asks for more points. A time along which points were recorded is no
--- coordinate: of more than three columns the first three are looked at.
---
--- ## References
--- https://pytorch3d.readthedocs.io/en/latest/modules/ops.html (sample_farthest_points)

local POINTS = "batch.points|batch.point_cloud*|batch.pointcloud*|batch.pts|batch.xyz|batch.coords|batch.coord|"
  .. "batch.cloud*|batch.*_points|batch.pos"

--- The one of the first three columns that never falls along the points of any cloud: from 1; nil where none or where
--- it rises less often than not.
local function ordered(row)
  local clouds, count, width = math.floor(row.shape[1]), math.floor(row.shape[2]), math.floor(row.shape[3])
  local falls, rises, n = {}, {}, 0
  for k = 1, math.min(3, width) do falls[k], rises[k] = 0, 0 end
  local per = math.min(count, 10000 // width)
  for cloud = 0, math.min(clouds, 16) - 1 do
    local x = row:values(cloud * count * width, per * width)
    for i = 1, per - 1 do
      n = n + 1
      for k = 1, #falls do
        local step = x[i * width + k] - x[(i - 1) * width + k]
        if step < 0 then falls[k] = falls[k] + 1 elseif step > 0 then rises[k] = rises[k] + 1 end
      end
    end
  end
  for k = 1, #falls do
    if n >= 64 and (falls[k] == 0 and rises[k] > 0.5 * n or rises[k] == 0 and falls[k] > 0.5 * n) then return k end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Points are in order and were cut at a limit",
  needs    = { tensors = { "name", "shape", "data" } },
  symptoms = { "rows-cut-at-limit" },

  run = function(case)
    local clouds = case.tensors:where("match(name, ?) and match(dtype, 'float*') and zero_share is not null and "
      .. "nonfinite == 0 and not match(name, 'battery.*')", POINTS):sort("step")
    local judged, first, axis = 0, nil, nil
    for row in clouds:slice(0, 20):rows() do
      local shape = row.shape or {}
      if #shape == 3 and shape[3] >= 2 and shape[3] <= 16 and shape[2] >= 16 and shape[1] >= 2 then
        judged = judged + 1
        local k = ordered(row)
        if not k or axis and k ~= axis or first and first.shape[2] ~= shape[2] then return end
        first, axis = first or row, k
      end
    end
    if judged == 0 then return skip("clouds of points in a dumped batch (batch.points)") end
    local count = first.shape[2]
    local limit = case.config:where("match(key, '*max*point*|*point*limit*|*truncat*|*max_pts*|*max_num_p*') and "
      .. "number == ?", count):first()
    if not limit then return skip(("a limit of %d points in a config"):format(count)) end
    local more = case.config:where("match(key, '*num_point*|*n_points|*npoint|*num_pts*') and number > ?", count)
      :first()
    report {
      symptom  = "rows-cut-at-limit",
      score    = more and 0.8 or 0.3,
      at       = { step = first.step },
      message  = ("the %d points of each cloud of %s are in order of column %d, and as many as %s%s: those behind them "
        .. "in that order were cut off, from one end of all clouds%s"):format(count, judged > 1
        and units.plural(judged, "dump") or first.name, axis, limit.key,
        more and (", where %s asks for %s"):format(more.key, units.count(more.number)) or "",
        more and "" or ", unless they have no more by themselves"),
      evidence = { first, limit, more },
    }
  end,
}
