// What the script of the waiting page does over time. Each story is told with different luck, because its pauses are drawn.
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { board, open, page, standing } = require("./world.cjs");

const CLAIM_SECONDS = 120;
const TIMES = process.env.ANTEROOM_TEST_FULL === "1" ? 200 : 20;

test("a hidden tab does not miss its turn, however many are let in with it", async () => {
  for (const together of [1, 5_000, 50_000]) {
    for (let seed = 1; seed <= TIMES; seed += 1) {
      let serving = 4_699;
      const tab = await open({ seed, isHidden: true, data: page(), answer: () => standing(serving) });
      // Near the moment at which a page with a stream asks for its estimate, which a hidden one need not.
      for (let second = 0; second < 65 + seed * 2 % 40; second += 1) {
        tab.tell("board", board(serving, { waiting: together }));
        await tab.pass(1);
      }
      const turn = tab.seconds();
      serving = 4_699 + Math.max(301, together);
      for (let second = 0; second < CLAIM_SECONDS; second += 1) {
        tab.tell("board", board(serving, { waiting: together }));
        await tab.pass(1);
      }
      assert.ok(tab.since(turn, "reload").length > 0, `seed ${seed}: nobody went in, ${together} together`);
    }
  }
});

test("a line moved back is shown as it is, and a crowd asks no more often than it may", async () => {
  for (const crowd of [1_000, 100_000, 200_000]) {
    let asked = 0;
    for (let seed = 1; seed <= TIMES; seed += 1) {
      let serving = 4_900;
      const data = page({ place: { people_ahead: 99, people_ahead_at_first: 300 } });
      const tab = await open({ seed, data, answer: () => standing(serving, { is_standing_still: serving < 4_900 }) });
      const announce = () => tab.tell("board", board(serving, { waiting: crowd, standstill: serving < 4_900 ? "moved-back" : null }));
      for (let second = 0; second < 3; second += 1) {
        announce();
        await tab.pass(1);
      }
      const back = tab.seconds();
      serving = 3_900;
      for (let second = 0; second < CLAIM_SECONDS; second += 1) {
        announce();
        await tab.pass(1);
        if (second === 19) asked += tab.since(back, "ask").length;
      }
      assert.equal(tab.elements["people-ahead"].textContent, "1,099", `seed ${seed}, a crowd of ${crowd}`);
    }
    const perSecond = (asked / TIMES / 20) * crowd;
    assert.ok(perSecond < 12_000, `a crowd of ${crowd} asks ${Math.round(perSecond)} times a second`);
  }
});

test("a stream that dies without a word is missed within the time of a claim, also in a hidden tab", async () => {
  for (const isHidden of [false, true]) {
    for (let seed = 1; seed <= TIMES; seed += 1) {
      let serving = 4_699;
      const data = page({ live: { next_poll_seconds: 70 } });
      const tab = await open({ seed, isHidden, data, answer: () => standing(serving, { next_poll_seconds: serving >= 5_000 ? 2 : 70 }) });
      for (let second = 0; second < 60 + seed; second += 1) {
        tab.tell("board", board(serving));
        await tab.pass(1);
      }
      const silent = tab.seconds();
      serving = 5_000;
      await tab.pass(300);
      const [entered] = tab.since(silent, "reload");
      assert.ok(entered, `seed ${seed}: nobody went in`);
      // Silence is noticed after 50 seconds, and then one asks at the usual pace.
      assert.ok(entered.seconds - silent < 50 + 15 + 1.2 * 70 + 5, `seed ${seed}: after ${entered.seconds - silent} s`);
      assert.ok(tab.since(silent, "connect").length > 0, "and another stream is tried");
    }
  }
});

test("keep-alives keep a quiet stream, and it is not asked more often for that", async () => {
  const tab = await open({ data: page(), answer: () => standing(4_699) });
  tab.tell("board", board(4_699));
  await tab.pass(1);
  const quiet = tab.seconds();
  for (let turn = 0; turn < 40; turn += 1) {
    await tab.pass(15);
    tab.tell("alive", 1);
  }
  assert.equal(tab.since(quiet, "connect").length, 0);
  assert.equal(tab.document.documentElement.dataset.live, "stream");
  const asked = tab.since(quiet, "ask").length;
  assert.ok(asked <= 10, `asked ${asked} times in ten minutes, for the estimate`);
});

test("a proxy that holds the stream back does not keep the page from asking", async () => {
  let serving = 4_699;
  const tab = await open({ data: page({ live: { next_poll_seconds: 5 } }), answer: () => standing(serving, { next_poll_seconds: 5 }) });
  await tab.pass(300);
  assert.ok(tab.since(0, "ask").length >= 40, `asked ${tab.since(0, "ask").length} times`);
  assert.ok(tab.since(0, "connect").length <= 8, `connected ${tab.since(0, "connect").length} times`);
  serving = 5_000;
  await tab.pass(10);
  assert.ok(tab.since(300, "reload").length > 0);
});

test("after a sleep the place is asked for at once", async () => {
  const tab = await open({ data: page(), answer: () => standing(4_699) });
  tab.tell("board", board(4_699));
  await tab.pass(5);
  tab.sleep(3_600);
  const woken = tab.seconds();
  await tab.pass(20);
  assert.ok(tab.since(woken, "ask").length > 0);
});

test("who named a pause is given it, also if it was a proxy", async () => {
  for (const body of [undefined, { status: 503, title: "x" }]) {
    const answer = () => ({ status: 503, headers: { "retry-after": "120" }, body });
    const tab = await open({ data: page({ live: { next_poll_seconds: 2 } }), answer });
    await tab.pass(115);
    assert.equal(tab.since(0, "ask").length, 1);
    assert.equal(tab.since(0, "connect").length <= 3, true);
    await tab.pass(60);
    assert.ok(tab.since(115, "ask").length >= 1);
  }
});

test("a net that wants a login is no reason to leave the page", async () => {
  const tab = await open({ data: page({ live: { next_poll_seconds: 5 } }), answer: () => ({ status: 200 }) });
  await tab.pass(60);
  assert.equal(tab.since(0, "reload").length, 0);
  assert.equal(tab.elements.connection.hidden, false);
  assert.equal(tab.elements.announce.textContent, "No connection", "and those who do not see it hear it");
});

test("who has left by another tab, or missed the turn there, is asked before a place is taken", async () => {
  for (const status of ["none", "arriving"]) {
    const tab = await open({ data: page(), answer: () => ({ body: { room: "R", status } }) });
    await tab.pass(60);
    assert.equal(tab.since(0, "reload").length, 0, "a reload would take a place");
    assert.deepEqual(tab.since(0, "go to").map(event => event.what), ["go to /line?room=R&return=%2Ftickets%3Frow%3D1"]);
  }
});

test("while the store is lost the time of the last update stands still", async () => {
  const answer = () => standing(4_699, { status: "held" });
  const tab = await open({ data: page(), answer });
  tab.tell("board", board(4_699));
  const before = tab.elements.updated.textContent;
  for (let turn = 1; turn <= 4; turn += 1) {
    await tab.pass(10);
    tab.tell("board", board(4_699));
    tab.tell("stale", { stale_seconds: 10 * turn });
  }
  assert.equal(tab.document.documentElement.dataset.phase, "held");
  // The first frame cannot be told from a fresh one.
  const after = tab.elements.updated.textContent;
  await tab.pass(10);
  tab.tell("board", board(4_699));
  tab.tell("stale", { stale_seconds: 50 });
  assert.equal(tab.elements.updated.textContent, after);
  await tab.pass(5);
  tab.tell("board", board(4_699));
  tab.tell("stale", { stale_seconds: 0 });
  assert.notEqual(tab.elements.updated.textContent, after);
  assert.notEqual(tab.elements.updated.textContent, before);
});

test("an estimate that wavers around the limit does not make the page waver", async () => {
  const estimates = [80, 95, 88, 101, 85, 92, 89, 97];
  let turn = 0;
  const answer = () => {
    turn += 1;
    return standing(4_959, { next_poll_seconds: 5, estimated_wait_seconds: estimates[turn % estimates.length] });
  };
  const data = page({ place: { people_ahead: 40, likely_seconds: 80 }, live: { next_poll_seconds: 5 } });
  const tab = await open({ data, answer });
  const said = new Set();
  for (let second = 0; second < 600; second += 1) {
    await tab.pass(1);
    said.add(tab.elements.title.textContent);
  }
  assert.deepEqual([...said], ["near title"]);
});

test("a page of an operator's without a door known to the script is not loaded again and again at the turn", async () => {
  const data = page({ phase: "turn", situation: "turn", auto_enter: false, live: { open_at_turn: null } });
  const tab = await open({ data, answer: () => standing(5_000) });
  await tab.pass(100);
  assert.equal(tab.since(0, "reload").length, 0);
});

test("a new notice is heard once", async () => {
  const tab = await open({ data: page(), answer: () => standing(4_699) });
  tab.tell("board", board(4_699, { notice: "Ten minutes late." }));
  assert.equal(tab.elements.announce.textContent, "Ten minutes late.");
  tab.tell("board", board(4_690, { notice: "Ten minutes late." }));
  assert.equal(tab.elements.notice.textContent, "Ten minutes late.");
});

test("how long a place is held runs down: in minutes at first, in seconds at the end", async () => {
  const data = page({
    phase: "turn",
    situation: "turn",
    auto_enter: false,
    place: { remaining_seconds: 150 },
    live: { open_at_turn: null },
    texts: { "turn-remaining": "{n} seconds", "turn-remaining-minutes": "{n} minutes" },
  });
  let remaining = 150;
  const tab = await open({ data, answer: () => standing(5_000, { claim_expires_in_seconds: remaining, next_poll_seconds: 10 }) });
  const told = [];
  for (; remaining > 0; remaining -= 1) {
    if (told.at(-1) !== tab.elements.remaining.textContent) told.push(tab.elements.remaining.textContent);
    await tab.pass(1);
  }
  assert.deepEqual(told.slice(0, 3), ["2 minutes", "119 seconds", "118 seconds"]);
  assert.ok(Number.parseInt(told.at(-1), 10) <= 2, told.at(-1));
});

test("a notification is left to be seen before the page goes on, unless the turn would be over", async () => {
  for (const [remaining, pause] of [[120, 5], [4, 2]]) {
    const remembered = { "anteroom-cue-notification": "on" };
    const tab = await open({ data: page(), remembered, answer: () => standing(5_000, { claim_expires_in_seconds: remaining }) });
    await tab.pass(60);
    const [notified, again] = tab.since(0, "notify");
    const [entered] = tab.since(0, "reload");
    assert.ok(notified && !again, "one notification");
    assert.equal(Math.round((entered.seconds - notified.seconds) * 10) / 10, pause, `with ${remaining} s left`);
  }
});
