curl -X POST http://localhost:8001/api/sandbox/sessions \
  -H "X-Api-Key: $API_KEY" \
  -H "Content-Type: application/json" \
  -d '{"mode":"docker","image":"astraforge/codex-cli:latest"}'
