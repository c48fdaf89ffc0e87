--- The terms of a detector's loss that only places of a thing have: its boxes, their overlap and centre-ness.

local box_losses = {}

--- What such terms are called.
box_losses.NAMES = "*bbox*|*box_loss*|*loss_box*|*box_reg*|*giou*|*ciou*|*iou_loss*|*loss_iou*|*ctrness*|*centerness*|"
  .. "*centreness*|*dfl*"

--- What is called alike and is measured; and terms that labels have no part in.
local OTHERS = "*AP*|*_ap*|*mAP*|*acc*|*coef*|*weight*|*num*|*lr*|*val*|*eval*|*test*|*recall*|*precision*|*error*|"
  .. "*unsup*|*pseudo*|*consist*|*teacher*|*distill*"

--- Names of regressions that are of boxes or of something else: one that counts shows that there is something to learn.
local SIMILAR = "*loss_loc*|*loc_loss*|*loss_reg|*reg_loss*|*loss_wh*|*wh_loss*|*offset*|*corner*"

--- The rows of such terms, by name, at all steps; with `similar` those of other regressions as well.
---@param case culprit.Case
---@param similar boolean?
---@return culprit.Table
function box_losses.of(case, similar)
  return case.scalars:where("layer is null and finite(value) and match(name, ?) and not match(name, ?)",
    box_losses.NAMES .. (similar and "|" .. SIMILAR or ""), OTHERS)
end

return box_losses
