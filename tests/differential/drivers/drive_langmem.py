"""LangMem's summarize_messages and the summarization of deepagents: both LangChain's messages."""

from types import SimpleNamespace

from deepagents.middleware import summarization as deepagents
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langmem.short_term import summarize_messages

from drive_langchain import LangChain, counter
from harness import SUMMARY


class LangMem(LangChain):
    """Asked with the whole history each time: the running summary says how much of it is summarised."""

    system_apart = False
    running = None

    def policy(self):
        made = summarize_messages(
            self.state,
            running_summary=self.running,
            model=RunnableLambda(lambda _: AIMessage(SUMMARY)),
            token_counter=counter,
            **self.settings,
        )
        self.running = made.running_summary
        return made.messages


class Kept:
    """A backend that takes every file."""

    def download_files(self, paths):
        return []

    def write(self, path, content):
        return SimpleNamespace(error=None)


class DeepAgents(LangChain):
    """Driven as the agent does: the request goes in, the messages that reach the model come out."""

    def __init__(self, **settings):
        super().__init__(**settings)
        pairs = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        args = pairs.get("truncate_args_settings")
        if args:
            pairs["truncate_args_settings"] = {k: tuple(v) if isinstance(v, list) else v for k, v in args.items()}
        self.model = FakeListChatModel(responses=[SUMMARY])
        self.middleware = deepagents.SummarizationMiddleware(
            model=self.model, backend=Kept(), token_counter=counter, **pairs
        )
        self.memory = {deepagents.SUMMARIZATION_SESSION_ID_KEY: "session"}

    def policy(self):
        seen = []

        def handler(request):
            seen[:] = request.messages
            return SimpleNamespace(result=[AIMessage("unused")], structured_response=None)

        request = ModelRequest(
            model=self.model, messages=list(self.state), tools=[], state=self.memory, runtime=None,
            system_message=SystemMessage(self.system[0].content) if self.system else None,
        )
        made = self.middleware.wrap_model_call(request, handler)
        if getattr(made, "command", None):
            self.memory.update(made.command.update)
        return seen


POLICIES = {
    "langmem": ("langmem", {"max_tokens": 6000, "max_tokens_before_summary": 4000, "max_summary_tokens": 256}, LangMem),
    "langmem-default": ("langmem", {"max_tokens": 4000}, LangMem),
    "deepagents": (
        "deepagents",
        {
            "trigger": ["tokens", 6000],
            "keep": ["messages", 6],
            "truncate_args_settings": {"trigger": ["messages", 20], "keep": ["messages", 20], "max_length": 500},
        },
        DeepAgents,
    ),
    "deepagents-tokens": (
        "deepagents",
        {
            "trigger": ["tokens", 6000],
            "keep": ["tokens", 600],
            "truncate_args_settings": {"trigger": ["tokens", 4000], "keep": ["tokens", 1500], "max_length": 500},
        },
        DeepAgents,
    ),
}
