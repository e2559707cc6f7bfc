"""What engines print of themselves: the layouts of vLLM, SGLang and llama-server, with a few options of each."""

VLLM_HELP = """\
WARNING 05-01 10:00:00 [cuda.py:12] no device was found
usage: vllm serve [model_tag] [options]

Start a server for one model.
  Give it settings by --config as well.

positional arguments:
  model_tag             The model to serve. (default: None)

options:
  -h, --help            show this help message and exit
  --headless            Take no requests here. (default: False)

Frontend:
  How clients reach it.

  --host HOST           Where to listen. (default: None)
  --port PORT           Where to listen, as a number; may be
                        --host's too. (default: 8000)
  --api-key API_KEY [API_KEY ...]
                        Keys that clients may give.
                        (default: None)
  --enable-log-requests, --no-enable-log-requests
                        Whether requests are logged. (default: False)
  --tool-call-parser {alpha,beta} or a name of a plugin
                        Which parser. (default: None)

Model:
  --dtype {auto,bfloat16,float16,float32,half}
                        How to compute. (default: auto)
  --max-model-len MAX_MODEL_LEN
                        Longest context. (default: None)
  --quantization {awq,fp8,gptq,None}, -q {awq,fp8,gptq,None}
                        How weights were quantized. (default: None)
  --served-model-name SERVED_MODEL_NAME [SERVED_MODEL_NAME ...]
                        Names. (default: None)
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
                        Ranks. (default: 1)
  --enforce-eager, --no-enforce-eager
                        No graphs. (default: False)
  --enable-prefix-caching, --no-enable-prefix-caching
                        Keep prefixes. (default: True)
  --compilation-config COMPILATION_CONFIG, -O COMPILATION_CONFIG
                        JSON. (default: {'level': None})
  --gpu-memory-utilization GPU_MEMORY_UTILIZATION
                        A share. (default: 0.92)
  --max-num-seqs MAX_NUM_SEQS
                        Requests at once. (default: None)
  --max-num-batched-tokens MAX_NUM_BATCHED_TOKENS
                        Tokens at once. (default: None)
"""

SGLANG_HELP = """\
usage: launch_server.py [-h] --model-path MODEL_PATH [--port PORT]
                        [--tp-size TP_SIZE] [--dtype {auto,half}]

options:
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The weights.
  --host HOST           Where to listen.
  --port PORT           Where to listen.
  --tensor-parallel-size, --tp-size TP_SIZE
                        Ranks.
  --dtype {auto,half}   How to compute.
  --context-length CONTEXT_LENGTH
                        Longest context.
  --trust-remote-code   Run code of the model.
  --ep-size EP_SIZE, --ep EP_SIZE
                        Ranks of experts.
"""

LLAMA_HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the context (default: 0)
                                        (env: LLAMA_ARG_CTX_SIZE)
--mmap, --no-mmap                       whether to map the file (default: enabled)
--rope-scaling {none,linear,yarn}       how to scale
-m,    --model FNAME                    the file
--draft, --draft-max N                  the argument has been removed. use --spec-draft-n-max or
                                        --spec-other
                                        (env: LLAMA_ARG_DRAFT_MAX)

----- example-specific params -----

--port PORT                             port to listen (default: 8080)
"""
