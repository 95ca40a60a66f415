#include "runtime/text/jinja_script.h"

namespace hydrac::runtime {

// Reads lines of JSON, the settings first and then a list of conversations a line, and answers a line each.
// Its environment is that of transformers' apply_chat_template. Once everything is imported it can open no
// file and no connection.
const char* const kJinjaScript = R"py(
import datetime, json, os, queue, re, resource, signal, sys, threading
signal.signal(signal.SIGINT, signal.SIG_DFL)

def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()

def end(letter, text):
    answer({letter: str(text)})
    os._exit(0)

try:
    import jinja2, jinja2.debug, jinja2.ext, jinja2.nodes, jinja2.sandbox, jinja2.utils
    from jinja2.exceptions import TemplateError, TemplateSyntaxError, SecurityError
except ImportError as error:
    end("missing", error)

# Not an Exception: no template can catch it.
class OutOfTime(BaseException):
    pass

# The template renders the conversation, and its replies cannot be told from the rest.
class Unclear(Exception):
    pass

def out_of_time(*ignored):
    raise OutOfTime()

class Replies(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("reply"), [], [], body).set_lineno(line)

    def reply(self, caller):
        text = caller()
        blocks.append((written, written + len(text)))
        return text

class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)

def require_plain(name):
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no attribute {name!r}")

class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        for name in dict(*args[1:], **kwargs):
            require_plain(name)
        jinja2.utils.Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name, value):
        require_plain(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

def raise_exception(message):
    raise TemplateError(message)

def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

def compiled(source):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Replies, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, dict=Dict(), namespace=Namespace,
                               strftime_now=lambda format: date.strftime(format))
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        end("wrong", f"{shown_as}:{error.lineno}: {error.message}")

def limit():
    for what, most in ((resource.RLIMIT_AS, settings["bytes"]), (resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_FSIZE, 0),
                       (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGPROF, out_of_time)

# Seconds of its own time: a machine with other work changes nothing. The second one ends what no Python interrupts.
def allow(seconds):
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_VIRTUAL, 3 * seconds)

def messages_of(row):
    messages = []
    for given in row["messages"]:
        message = {key: value for key, value in given.items() if value is not None}
        reasoning = next((message[key] for key in ("reasoning_content", "thinking", "reasoning") if key in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    return messages

def write(row, messages, prompt=False):
    global written
    written = 0
    blocks.clear()
    template = with_tools if with_tools and row.get("tools") is not None else plain
    pieces = []
    for piece in template.generate(messages=messages, tools=row.get("tools"), documents=row.get("documents"),
                                   add_generation_prompt=prompt, **{**settings["variables"], **row.get("variables", {})}):
        pieces.append(piece)
        written += len(piece)
    return "".join(pieces)

# The end of the reply that begins `text`. `alone`: the reply as it is written where the conversation ends with it. There it may
# end with a token that is missing before later turns, or begin with thoughts that are.
def end_of_reply(text, alone, message):
    eos = settings["variables"].get("eos_token")
    said = message.get("content")
    said = said.split("</think>")[-1].strip() if isinstance(said, str) else ""
    for reply in (alone, alone[:-len(eos)] if eos and alone.endswith(eos) else ""):
        if reply and text.startswith(reply):
            return len(reply)
        for at in range(1, len(reply)):
            if text.startswith(reply[at:]) and said in reply[at:]:
                return len(reply) - at
    raise Unclear

def reply_at(row, messages, text, index):
    before = write(row, messages[:index], prompt=True)
    if not text.startswith(before):
        raise Unclear
    if index + 1 == len(messages):
        return len(before), len(text)
    alone = write(row, messages[:index + 1])
    if not alone.startswith(before):
        raise Unclear
    return len(before), len(before) + end_of_reply(text[len(before):], alone[len(before):], messages[index])

def replies_in(row, messages, text):
    for index in row["replies"]:
        try:
            yield reply_at(row, messages, text, index)
        except (Unclear, Exception) as error:
            why = "" if isinstance(error, Unclear) else f" ({describe(error)})"
            raise Unclear(f"message {index + 1}: the template writes this reply, or what is before it, otherwise in the whole "
                          f"conversation than where it ends{why}")

def render(row):
    messages = messages_of(row)
    text = write(row, messages, row.get("prompt", False))
    if "{'type': " in text and any(isinstance(message.get("content"), list) for message in messages):
        raise Unclear("the template does not read a content of parts: write it as one text")
    marked = has_blocks and bool(row["replies"])
    places = list(blocks) if marked else list(replies_in(row, messages, text))
    return {"text": text, "blocks": marked,
            "replies": [[len(text[:at].encode("utf-8")) for at in place] for place in places],
            "bytes": len(text.encode("utf-8"))}

def describe(error):
    if type(error) is TemplateError:
        return f"the template says: {error}"
    line, at = 0, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "<template>":
            line = at.tb_lineno
        at = at.tb_next
    place = f"{shown_as}:{line}" if line else shown_as
    if isinstance(error, MemoryError):
        return f"{place}: it takes more than {settings['bytes'] >> 20} MiB of memory"
    return f"{place}: {type(error).__name__}: {error}"

def rendered(row):
    try:
        allow(settings["seconds"])
        return render(row)
    except OutOfTime:
        return {"error": f"{shown_as} takes longer than {settings['seconds']} seconds"}
    except Unclear as error:
        return {"unclear": str(error)}
    except UnicodeError:
        return {"error": f"{shown_as} writes text that is not Unicode"}
    except Exception as error:
        return {"error": describe(error)}
    finally:
        allow(0)

# A thread of its own reads: hydrac may send while it is not yet being read from. It never ends, because that would open a
# library.
def read():
    for line in sys.stdin.buffer:
        lines.put(line)
    lines.put(None)
    threading.Event().wait()

blocks, written = [], 0
settings = json.loads(sys.stdin.buffer.readline())
shown_as, date = settings["shown_as"], datetime.datetime.fromisoformat(settings["date"])
lines = queue.Queue()
threading.Thread(target=read, daemon=True).start()
compiled("{{ 'all that is imported when it is first needed\\n' | tojson(indent=1) }}").render()
limit()
try:
    allow(settings["seconds"])
    plain = compiled(settings["source"])
    with_tools = compiled(settings["with_tools"]) if settings["with_tools"] else None
except OutOfTime:
    end("wrong", f"{shown_as} takes longer than {settings['seconds']} seconds to be compiled")
except Exception as error:
    end("wrong", describe(error))
finally:
    allow(0)
has_blocks = re.search(r"\{%-?\s*generation\s*-?%\}", settings["source"]) is not None
while (line := lines.get()) is not None:
    answer([rendered(row) for row in json.loads(line)])
os._exit(0)
)py";

}  // namespace hydrac::runtime
