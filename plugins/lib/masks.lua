--- What a mask is called, as a tensor or a layer. A masker, a mask_net or a mask_head is a part of a model like any other.

return { NAMES = "mask|*_mask|*.mask|mask.*|*_mask.*|*.mask.*|masks|*_masks|*.masks|*_masks.*|*attnmask*|*attn_mask*" }
