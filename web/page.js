// The chat page: a conversation, streamed. Text is only ever set as text, never as HTML.

const TEXTS = {
  zh: {
    clear: "新对话",
    greeting: "你好，想聊点什么？",
    starter1: "用三句话介绍量子计算",
    starter2: "写一首关于春天的七言绝句",
    temperature: "温度",
    code: "代码",
    creative: "创意",
    reasoning: "推理",
    experts: "显示专家",
    pair: (layer, tokens, all) => `第 ${layer} 层，${all} 个 token 中的 ${tokens} 个`,
    dense: "稠密模型，没有专家",
    placeholder: "输入消息，Enter 发送，Shift+Enter 换行",
    placeholderNarrow: "输入消息",
    send: "发送",
    stop: "停止",
    notice: "erne-mini 是演示用的小模型，它说的事实并不可靠。",
    keyNeeded: "此服务器需要 API 密钥：",
    keySave: "使用",
    failed: (reason) => `请求失败：${reason}。请稍后重试`,
    noConnection: "无法连接服务器",
    cut: "回答在服务器那里中断了",
    length: "（已达到长度上限）",
    dropped: "（对话超出上下文长度，最早的内容不再发送给模型）",
  },
  en: {
    clear: "New chat",
    greeting: "Hello! What shall we talk about?",
    starter1: "What can you do?",
    starter2: "What is a mixture-of-experts model?",
    temperature: "Temperature",
    code: "Code",
    creative: "Creative",
    reasoning: "Reasoning",
    experts: "Show experts",
    pair: (layer, tokens, all) => `layer ${layer}, ${tokens} of ${all} tokens`,
    dense: "a dense model: it has no experts",
    placeholder: "Type a message; Enter sends, Shift+Enter starts a new line",
    placeholderNarrow: "Type a message",
    send: "Send",
    stop: "Stop",
    notice: "erne-mini is a small demonstration model; its facts are unreliable.",
    keyNeeded: "This server asks for an API key:",
    keySave: "Use it",
    failed: (reason) => `Request failed: ${reason}. Please try again later`,
    noConnection: "the server cannot be reached",
    cut: "the answer broke off",
    length: "(the length limit is reached)",
    dropped: "(the conversation is longer than the context: its oldest turns are no longer sent)",
  },
};
const LANGUAGE = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
const T = TEXTS[LANGUAGE];
const NARROW = matchMedia("(max-width: 34rem)"); // no room for the long placeholder

const POLL_LOADING_MS = 500;
const POLL_READY_MS = 30_000;
const KEY_STORAGE = "erne-api-key"; // session storage: gone with the tab

const $ = (id) => document.getElementById(id);
const main = document.querySelector("main");

let history = []; // {role, content}: what is sent to the model
let modelName = "";
let ready = false;
let nextPoll = 0; // timer
let running = null; // AbortController of the answer being written

function translate() {
  document.documentElement.lang = LANGUAGE === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = T[element.dataset.text];
  placeholder();
}

function placeholder() {
  $("input").placeholder = NARROW.matches ? T.placeholderNarrow : T.placeholder;
}

// Server ---------------------------------------------------------------------------------------------------------------

function headers(more = {}) {
  const key = sessionStorage.getItem(KEY_STORAGE);
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

class RequestError extends Error {
  constructor(message, status, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

async function errorOf(response) {
  try {
    const { error } = await response.json();
    return new RequestError(error.message, response.status, error.param);
  } catch {
    return new RequestError(`HTTP ${response.status}`, response.status, null);
  }
}

// Yields the JSON of each event of a stream until [DONE]; a stream that ends before it is an error.
async function* eventsOf(response) {
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new RequestError(T.cut, 0, null);
    buffer += decoder.decode(value, { stream: true });
    const events = buffer.split("\n\n");
    buffer = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ")) continue; // a comment that keeps the connection open
      const data = event.slice("data: ".length);
      if (data === "[DONE]") return;
      const json = JSON.parse(data);
      if (json.error) throw new RequestError(json.error.message, json.error.code, json.error.param);
      yield json;
    }
  }
}

// Streams one answer; onText gets each new piece. Returns the finish reason, and the expert trace where it is wanted.
async function complete(messages, temperature, signal, onText) {
  const body = { messages, temperature, stream: true };
  if ($("experts").checked) body.show_expert_trace = true;
  if (modelName) body.model = modelName;
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  let finish = null;
  let trace = null;
  for await (const event of eventsOf(response)) {
    trace = event.expert_trace ?? trace;
    for (const choice of event.choices) {
      if (choice.delta.content) onText(choice.delta.content);
      finish = choice.finish_reason ?? finish;
    }
  }
  return { finish, trace };
}

async function loadModelName() {
  const response = await fetch("v1/models", { headers: headers() });
  if (response.status === 401) return askForKey();
  if (!response.ok) return;
  const { data } = await response.json();
  modelName = data[0]?.id ?? "";
  $("model").textContent = modelName;
  $("notice").hidden = modelName !== "" && modelName !== "erne-mini";
}

function showStatus(state, text, detail = "") {
  $("status").dataset.state = state;
  $("status").textContent = text;
  $("status").title = detail;
}

async function pollHealth() {
  let isReady = false;
  try {
    const response = await fetch("health", { cache: "no-store" });
    isReady = response.ok;
    const health = await response.json();
    if (isReady) {
      showStatus("ready", "Ready");
      if (!ready) await loadModelName();
    } else if (health.status === "loading") {
      showStatus("loading", "Loading model…", `${Math.round((health.progress ?? 0) * 100)} %`);
    } else {
      showStatus("down", String(health.status));
    }
  } catch {
    showStatus("down", T.noConnection);
  }
  ready = isReady;
  updateButtons();
  clearTimeout(nextPoll);
  nextPoll = setTimeout(pollHealth, isReady ? POLL_READY_MS : POLL_LOADING_MS);
}

// Conversation ---------------------------------------------------------------------------------------------------------

function addMessage(role, text) {
  const item = document.createElement("li");
  item.className = role;
  item.textContent = text;
  $("messages").append(item);
  $("welcome").hidden = true;
  $("clear").hidden = false;
  main.scrollTop = main.scrollHeight;
  return item;
}

// Under a reply: the two experts that were most often chosen together, as [E3→E7], and those of each layer on hover.
function addExperts({ dense, tokens, layers, busiest_pair: busiest }) {
  if (dense) return addMessage("note", T.dense);
  if (!busiest) return;
  const show = ([a, b]) => `[E${a}→E${b}]`;
  const note = addMessage("note", `${show(busiest.experts)} ${T.pair(busiest.layer, busiest.tokens, tokens)}`);
  note.title = layers.map(({ layer, pair }) => `${layer}: ${show(pair)}`).join("\n");
}

// Follows the text only while the reader is at the end of it.
function append(item, text) {
  const atEnd = main.scrollHeight - main.scrollTop - main.clientHeight < 80;
  item.append(text);
  if (atEnd) main.scrollTop = main.scrollHeight;
}

function showError(error) {
  $("error").textContent = error ? T.failed(error instanceof TypeError ? T.noConnection : error.message) : "";
  $("error").hidden = !error;
}

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

function updateButtons() {
  $("send").hidden = running !== null;
  $("stop").hidden = running === null;
  $("send").disabled = !ready || $("input").value.trim() === "";
  for (const card of document.querySelectorAll(".card")) card.disabled = !ready || running !== null;
}

const isOverflow = (error) => error.status === 400 && /maximum context length/.test(error.message);

// Sends the conversation; while it is longer than the context, its oldest turn (a question with its answer) goes.
async function completeWithinContext(temperature, signal, onText) {
  for (let dropped = false; ; dropped = true) {
    try {
      return { ...(await complete(history, temperature, signal, onText)), dropped };
    } catch (error) {
      if (!isOverflow(error) || history.length <= 1) throw error;
      const next = history.findIndex((message, i) => i > 0 && message.role === "user");
      history = history.slice(next);
    }
  }
}

async function ask(text) {
  if (!ready || running || text.trim() === "") return;
  showError(null);
  running = new AbortController();
  updateButtons();
  addMessage("user", text);
  history.push({ role: "user", content: text });
  const item = addMessage("assistant", "");
  item.classList.add("writing");
  const temperature = Number(document.querySelector("input[name=temperature]:checked").value);
  let failure = null;
  try {
    const { finish, trace, dropped } = await completeWithinContext(temperature, running.signal, (piece) => append(item, piece));
    if (trace) addExperts(trace);
    if (finish === "length") addMessage("note", T.length);
    if (dropped) addMessage("note", T.dropped);
  } catch (error) {
    if (error.name !== "AbortError") failure = error;
  }
  item.classList.remove("writing");
  running = null;
  updateButtons();
  if (!item.isConnected) return; // the conversation was cleared meanwhile
  if (failure) {
    showError(failure);
    if (failure.status === 401) askForKey();
    pollHealth(); // "Ready" may be out of date
  }
  if (item.textContent !== "") {
    history.push({ role: "assistant", content: item.textContent });
  } else {
    // Nothing was answered: the question goes back into the input.
    item.previousElementSibling.remove();
    item.remove();
    history.pop();
    if ($("input").value === "") $("input").value = text;
  }
  updateButtons();
  grow();
}

function clearChat() {
  running?.abort();
  history = [];
  $("messages").replaceChildren();
  $("welcome").hidden = false;
  $("clear").hidden = true;
  showError(null);
  $("input").focus();
}

// The input is as high as its text, within limits set in the style sheet.
function grow() {
  const input = $("input");
  input.rows = Math.min(8, Math.max(1, input.value.split("\n").length));
}

function send() {
  const text = $("input").value;
  if (!ready || running || text.trim() === "") return;
  $("input").value = "";
  grow();
  ask(text);
}

translate();
updateButtons();
NARROW.addEventListener("change", placeholder);
$("chat").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("input").addEventListener("input", () => {
  grow();
  updateButtons();
});
$("input").addEventListener("keydown", (event) => {
  // While an input method composes a word, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", clearChat);
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY_STORAGE, $("key").value.trim());
  $("key").value = "";
  $("key-form").hidden = true;
  showError(null);
  loadModelName();
});
for (const card of document.querySelectorAll(".card")) {
  card.addEventListener("click", () => ask(card.textContent));
}
pollHealth();
