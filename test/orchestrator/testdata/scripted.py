"""An agent of deepagents whose model plays a script instead of thinking."""

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

MAIN = "def total(prices):\n    return max(prices)\n\nprint(total([1, 2, 39]))\n"

# What the agent calls, and what must be in the answer.
SCRIPT = [
    ("write_file", {"file_path": "/workspace/shop/main.py", "content": MAIN}, "/workspace/shop/main.py"),
    ("sandbox_shell", {"command": "cd shop && python3 main.py"}, "39"),
    ("grep", {"pattern": "max", "path": "/workspace/shop", "output_mode": "content"}, "return max(prices)"),
    ("read_file", {"file_path": "/workspace/shop/main.py"}, "print(total([1, 2, 39]))"),
    ("edit_file", {"file_path": "/workspace/shop/main.py", "old_string": "max(prices)", "new_string": "sum(prices)"}, "replaced 1"),
    ("sandbox_shell", {"command": "cd shop && python3 main.py | tee result"}, "42"),
    ("sandbox_python_repl", {"code": "print(int(open('/workspace/shop/result').read()) + 1)"}, "43"),
    ("ls", {"path": "/workspace/shop"}, "/workspace/shop/result"),
    ("glob", {"pattern": "*.py", "path": "/workspace/shop"}, "/workspace/shop/main.py"),
]


class ScriptedModel(BaseChatModel):
    """Makes the calls of SCRIPT one after the other, and then is done."""

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        names = {getattr(tool, "name", None) or tool["name"] for tool in tools}
        missing = {name for name, _, _ in SCRIPT} - names
        if missing:
            raise SystemExit(f"the agent has no tools {missing}, only {names}")
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        done = sum(isinstance(message, AIMessage) for message in messages)
        answer = AIMessage("done")
        if done < len(SCRIPT):
            name, args, _ = SCRIPT[done]
            answer = AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{done}", "type": "tool_call"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def work(backend, tools, session_id):
    """Has an agent go through the script in a session."""
    agent = create_deep_agent(ScriptedModel(), tools, backend=backend)
    config = {"configurable": {"sandbox_session_id": session_id}, "recursion_limit": 200}
    state = agent.invoke({"messages": [("user", "Repair the shop.")]}, config)
    answers = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    if len(answers) != len(SCRIPT):
        raise SystemExit(f"{len(answers)} answers to {len(SCRIPT)} calls")
    for (name, args, want), answer in zip(SCRIPT, answers, strict=True):
        if want not in str(answer.content) or answer.status != "success":
            raise SystemExit(f"{name} {args}: {answer.content!r}, want {want!r} in it")
    if state["messages"][-1].content != "done":
        raise SystemExit(f"the agent ends with {state['messages'][-1]!r}")
