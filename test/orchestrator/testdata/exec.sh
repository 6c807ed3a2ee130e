curl -X POST http://localhost:8001/api/sandbox/sessions/<id>/exec \
  -H "X-Api-Key: $API_KEY" \
  -H "Content-Type: application/json" \
  -d '{"command":"ls -la","cwd":"/workspace"}'
