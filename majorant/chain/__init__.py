"""Linear-chain conditional random fields, from what people give to labels.

To be read in this order:

1. data: ``tokens`` (what people give becomes numbers), ``feature_index`` (which pairs have a parameter), ``sequences``
   (both together), ``streamed`` (what does not fit in memory);
2. model: ``model`` (loss and gradient), ``latent`` (hidden states), ``bound`` (Algorithm 1 over a chain);
3. kernels: ``kernels.forward_backward`` and ``kernels.latent`` (sums over labellings), ``kernels.paths`` (the likeliest
   one), all on ``kernels.rows`` (rows of numbers in registers);
4. solver: ``dual`` and ``kernels.dual`` (dual ascent), ``kernels.online`` (one pass); what follows is of ``core``;
5. estimators: ``crf``, ``latent_crf``, with ``weights`` (what was learnt, and files) and ``source`` (where sequences
   are while they are fitted).
"""
