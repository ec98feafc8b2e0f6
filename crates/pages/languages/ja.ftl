# Japanese (desu/masu). What each message is for is said in en.ftl.

language-name = 日本語

waiting-title = 順番待ち中です
waiting-lead = ただいまアクセスが集中しています。このページを閉じても、順番は保持されます。
standstill-title = 順番待ちは一時停止中です
standstill-lead = 現在、ご案内を停止しています。お客様の順番は保持されています。
near-title = まもなくご案内します
near-lead = もうすぐお客様の順番です。このままお待ちください。
turn-title = お客様の順番です
turn-lead = ただいまご入場いただけます。
turn-lead-auto = サイトへご案内しています。
turn-remaining = { $count ->
   *[other] あと{ $n }秒間、お客様の順番を確保しています。
}
turn-remaining-minutes = { $count ->
   *[other] あと{ $n }分間、お客様の順番を確保しています。
}
arriving-title = 順番待ちの手続き中です
arriving-lead = 順番を確保しています。少々お待ちください。
arriving-cookies = 画面が変わらない場合は、ブラウザでCookieを有効にしてください。順番を保持するために必要です。
many-arriving-title = ただいま多くの方が来ています
many-arriving-lead = 少々お待ちください。一度に受け付けられる人数を超えています。このページは自動的に再試行します。
cookies-needed-title = Cookieが必要です
cookies-needed-lead = ブラウザにCookieが保存されなかったため、順番をお取りできません。このサイトのCookieを有効にしてから、もう一度確認してください。
held-title = お客様の順番は保持されています
held-lead = 当方の障害により、一時的に列が止まっています。復旧すると、このページは自動的に進みます。
held-new-title = 少々お待ちください
held-new-lead = 現在、順番待ちに接続できません。このページは自動的に再試行します。
gone-title = お客様の順番は過ぎました
gone-lead = 入場できる時間が過ぎたか、順番待ちを終了しています。最後尾に並び直すことができます。
left-title = 順番待ちをやめました
left-lead = お客様の順番は次の方に移りました。いつでも最後尾に並び直すことができます。
moved-title = 順番を移しました
moved-lead = お客様の順番は、別の端末またはブラウザに移っています。そちらでお続けください。
closed-title = 受付終了
closed-lead = ご案内と新しい順番の受付は終了しました。
away-title = 現在ご利用いただけません
away-lead = このサイトは現在、どなたもご案内していません。しばらくしてからもう一度お越しください。
limited-title = リクエストが多すぎます
limited-lead = お使いの端末またはネットワークからのリクエストが、このサイトの上限を超えました。少し待ってからお続けください。
outside-title = まだ入場していません
outside-lead = サイトを開くと、順番待ちに並べます。
not-done-title = この操作は実行されませんでした
not-done-lead = まだ入場していないため、サイトには何も送信されていません。サイトを開いて順番待ちに並び、入場後にもう一度お試しください。
unknown-site-title = サイトが見つかりません
unknown-site-lead = この名前のサイトはここにはありません。
failed-title = サイトが応答していません
failed-lead = お客様の操作に問題はありません。少し待ってから、もう一度お試しください。
refused-title = うまくいきませんでした
refused-lead = 前のページに戻り、もう一度お試しください。
inside-title = 入場できました
inside-lead = このページは閉じてかまいません。
handoff-title = 入場できました
handoff-lead = サイトへ移動しています。
confirm-title = 確認してください
confirm-lead = すでに入場済みです。続ける前に、サイトが確認を求めています。
elsewhere-title = お客様の順番はこの端末に移りました
elsewhere-lead = この端末でサイトを開き、ログインしてください。順番は保持されます。
for-site = このあと{ $site }へ進みます。

people-ahead = 前にお待ちの人数
people-ahead-of-you = { $count ->
    [0] 次がお客様の順番です
   *[other] お客様の前に{ $n }人お待ちです
}
your-number = 順番待ちの番号
estimated-wait = 待ち時間の目安
wait-unknown = まだわかりません
wait-less-than-a-minute = 1分未満
wait-minutes = { $count ->
   *[other] 約{ $n }分
}
wait-hours = { $count ->
   *[other] 約{ $n }時間
}
progress-since-joining = 並び始めてからの進み具合
updated-at = { $time } 更新
connection-lost = 接続できません。お客様の順番は保持されています。このページは自動的に再試行します。
what-happens = 順番になると、このページから自動的に入場できます。
what-happens-button = 順番になると、ここにボタンが表示されます。順番はしばらくの間確保されます。
keep-open = 順番が近づいたら、このページを開いたままにしてください。その時に待機中の方からご案内します。
keep-cookies = お客様の順番はこのブラウザに保存されています。Cookieを削除しないでください。
refresh-by-itself = { $count ->
   *[other] このページは{ $n }秒ごとに自動的に更新されます。
}
notice-from-operator = お知らせ

cues = 順番になったら
cue-sound = 音を鳴らす
cue-notification = 通知を表示する
cue-notification-blocked = このブラウザでは通知がブロックされています

enter-button = 今すぐ入場する
continue-button = 続ける
ask-again = 今すぐ確認する
join-button = もう一度列に並ぶ
home-button = サイトに戻る
leave-button = 順番待ちをやめる
leave-question = 順番を手放しますか？順番は次の方に移り、元に戻すことはできません。
leave-confirm = はい、やめます
move-button = 別の端末で続ける
move-title = 順番を別の端末に移す
move-lead = 別の端末でこのリンクを開いてください。順番はそちらに移り、このページは終了します。
move-qr-text = リンクのQRコード
move-expires = { $count ->
   *[other] リンクは{ $n }分間有効で、1回だけ使えます。
}
move-copy = リンクをコピー
move-copied = コピーしました
move-close = 閉じる
take-title = ここで順番待ちを続ける
take-lead = お客様の順番をこのブラウザに移します。元の端末では使えなくなります。
take-instead = このブラウザが現在保持している順番は失われます。
take-button = 順番をここに移す
take-failed-title = このリンクは使えなくなりました
take-failed-lead = すでに使用されたか、有効期限が切れています。順番をお持ちの端末で、新しいリンクを作成してください。
