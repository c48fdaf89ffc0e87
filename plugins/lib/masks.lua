--- What a mask is called, as a tensor or a layer. A masker, a mask_net or a mask_head is a part of a model like any
--- other. And what the table of a generator's conditions is called, whose output is dropped for guidance.

return { CONDITIONS = "*label_emb*|*class_emb*|*y_emb*|*cond_emb*|*null_emb*",
  NAMES = "mask|*_mask|*.mask|mask.*|*_mask.*|*.mask.*|mask?|*_mask?|masks|*_masks|*.masks|masks.*|*_masks.*|"
  .. "*.masks.*|*attnmask*|*attn_mask*|*causalmask*|masked_*|*.masked_*|*_masked|*masking" }
