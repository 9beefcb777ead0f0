-- Signed deliveries for peers, whose paths may end in more than the agent's name. Env: SIGNED (a line of hex for each
-- delivery, of the body below), TAG, and PATH_FIXED, or PATH_PREFIX and PATH_SUFFIX around the agent's number.
local tag, fixed = os.getenv("TAG"), os.getenv("PATH_FIXED")
local prefix, suffix = os.getenv("PATH_PREFIX"), os.getenv("PATH_SUFFIX") or ""
local signed = {}
for line in io.lines(os.getenv("SIGNED")) do signed[#signed + 1] = line end
local pad = string.rep("x", 180)
local headers = { ["Content-Type"] = "application/json", ["X-GitHub-Event"] = "push" }
local sent = 0
request = function()
  local at = sent % #signed
  sent = sent + 1
  headers["X-GitHub-Delivery"] = string.format("%s-%07d", tag, at)
  headers["X-Hub-Signature-256"] = "sha256=" .. signed[at + 1]
  local body = string.format(
    '{"ref":"refs/heads/main","number":"%s-%07d","repository":{"full_name":"acme/r-%d"},"pad":"%s"}',
    tag, at, at % 1000, pad)
  return wrk.format("POST", fixed or (prefix .. (at % 1000) .. suffix), headers, body)
end
